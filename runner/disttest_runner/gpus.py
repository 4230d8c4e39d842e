"""The GPUs of this pod, asked without starting the driver in a process that lives on."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping
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


def _by_nvml() -> Gpus | None:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if library.nvmlInit_v2() != 0:
        return None
    try:
        number = ctypes.c_uint(0)
        if library.nvmlDeviceGetCount_v2(ctypes.byref(number)) != 0:
            return None
        version = ctypes.c_int(0)
        known = library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == 0
        return Gpus(
            products=tuple(_name(library, index) for index in range(number.value)),
            driver=_text(library.nvmlSystemGetDriverVersion),
            cuda_driver=f"{version.value // 1000}.{version.value % 1000 // 10}" if known else "",
        )
    except AttributeError:  # an NVML without one of these functions
        return None
    finally:
        library.nvmlShutdown()


def _name(library: ctypes.CDLL, index: int) -> str:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
        return UNKNOWN
    return _text(lambda buffer, size: library.nvmlDeviceGetName(handle, buffer, size)) or UNKNOWN


def _text(ask: object) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    return buffer.value.decode(errors="replace") if ask(buffer, NAME_BYTES) == 0 else ""  # type: ignore[operator]  # a function of a C library has no type
