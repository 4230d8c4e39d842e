"""The GPUs of this pod, asked without starting the driver in a process that lives on."""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NAME_BYTES = 96
CUDA_SECONDS = 60  # a driver that is loaded for the first time takes long
UNKNOWN = "unknown"

# In a process of its own, since a process that has initialised CUDA cannot be forked any more.
TRY_CUDA = """
import ctypes
try:
    library = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(str(error))
code = library.cuInit(0)
if code:
    text = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(text))
    raise SystemExit(f"cuInit answered {code}: {(text.value or b'unknown').decode()}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """`products` has an entry for each GPU that ranks may use."""

    products: tuple[str, ...] = ()
    driver: str = ""
    cuda_driver: str = ""


def look(environ: Mapping[str, str] | None = None) -> Gpus:
    """By NVML; where there is none by device files. CUDA_VISIBLE_DEVICES limits what is seen."""
    environ = os.environ if environ is None else environ
    seen = _by_nvml() or Gpus(products=(UNKNOWN,) * sum(1 for _ in Path("/dev").glob("nvidia[0-9]*")))
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return seen
    words = [word.strip() for word in visible.split(",") if word.strip() and word.strip() != "-1"]
    return Gpus(
        products=tuple(_product(seen.products, word) for word in words),
        driver=seen.driver,
        cuda_driver=seen.cuda_driver,
    )


def _product(products: tuple[str, ...], word: str) -> str:
    return products[int(word)] if word.isdecimal() and int(word) < len(products) else UNKNOWN


def why_cuda_fails() -> str:
    """Empty if it can be initialised. Takes a process and up to CUDA_SECONDS."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", TRY_CUDA],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CUDA_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it did not answer within {CUDA_SECONDS} s"
    if done.returncode < 0:
        return f"the process that tried was killed by signal {-done.returncode}"
    return (done.stderr.strip().splitlines() or ["no reason was given"])[-1] if done.returncode else ""


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def used_bytes() -> tuple[int, ...]:
    """Of each GPU of this pod, by NVML; empty if it cannot be asked."""
    with _nvml() as library:
        if library is None:
            return ()
        found = []
        for index in range(_count(library)):
            memory = _Memory()
            if library.nvmlDeviceGetMemoryInfo(_handle(library, index), ctypes.byref(memory)) != 0:
                return ()
            found.append(int(memory.used))
        return tuple(found)


def _by_nvml() -> Gpus | None:
    with _nvml() as library:
        if library is None:
            return None
        version = ctypes.c_int(0)
        known = library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == 0
        return Gpus(
            products=tuple(_name(library, index) for index in range(_count(library))),
            driver=_text(library.nvmlSystemGetDriverVersion),
            cuda_driver=f"{version.value // 1000}.{version.value % 1000 // 10}" if known else "",
        )


@contextlib.contextmanager
def _nvml() -> Iterator[ctypes.CDLL | None]:
    """The library, initialised; None where there is none, or where it does not work."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        yield None
        return
    if library.nvmlInit_v2() != 0:
        yield None
        return
    try:
        yield library
    finally:
        library.nvmlShutdown()


def _count(library: ctypes.CDLL) -> int:
    number = ctypes.c_uint(0)
    return number.value if library.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 0 else 0


def _handle(library: ctypes.CDLL, index: int) -> ctypes.c_void_p:
    """Null for a GPU that is lost: functions that are given it answer with an error."""
    handle = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    return handle


def _name(library: ctypes.CDLL, index: int) -> str:
    handle = _handle(library, index)
    return _text(lambda buffer, size: library.nvmlDeviceGetName(handle, buffer, size)) or UNKNOWN


def _text(ask: Callable[[object, int], int]) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    return buffer.value.decode(errors="replace") if ask(buffer, NAME_BYTES) == 0 else ""
