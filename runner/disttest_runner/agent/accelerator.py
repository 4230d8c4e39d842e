"""The accelerators of this pod. No other module of the agent depends on their vendor.

No function here starts a driver in the calling process: a process that has started CUDA's cannot be forked any more.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from disttest_runner.compat import override

NAME_BYTES = 96
CUDA_SECONDS = 60  # a driver that is loaded for the first time takes long
UNKNOWN = "unknown"
SHARE_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"  # of NCCL 2.30 and newer: "1" allows several ranks on one GPU

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
class Devices:
    """The accelerators that ranks may use, `products` with one name each, and the versions of their driver."""

    products: tuple[str, ...] = ()
    driver: str = ""
    runtime: str = ""  # the newest CUDA that the driver supports


class Accelerator:
    """No accelerator. The class of a vendor's devices overrides every method."""

    def detect(self, environ: Mapping[str, str]) -> Devices:  # noqa: ARG002 - for devices that can be hidden
        """Return the devices that `environ` leaves visible."""
        return Devices()

    def used_bytes(self) -> tuple[int, ...]:
        """Return the memory in use on each device of this pod; empty if it is not known."""
        return ()

    def initialization_error(self) -> str:
        """Return why the driver cannot be initialized, empty if it can. Takes seconds where a driver is broken."""
        return ""


class Cuda(Accelerator):
    """NVIDIA's GPUs, read through NVML."""

    @override
    def detect(self, environ: Mapping[str, str]) -> Devices:
        """Count device files where there is no NVML."""
        found = _read_nvml() or Devices(products=(UNKNOWN,) * sum(1 for _ in Path("/dev").glob("nvidia[0-9]*")))
        visible = environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return found
        words = [word.strip() for word in visible.split(",") if word.strip() and word.strip() != "-1"]
        return Devices(
            products=tuple(_visible_product(found.products, word) for word in words),
            driver=found.driver,
            runtime=found.runtime,
        )

    @override
    def used_bytes(self) -> tuple[int, ...]:
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

    @override
    def initialization_error(self) -> str:
        """Takes a process and up to CUDA_SECONDS."""
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


NO_ACCELERATOR = Accelerator()
BY_BACKEND: Mapping[str, Accelerator] = {"nccl": Cuda(), "gloo": NO_ACCELERATOR}  # a row for each backend of torch


def of_backend(backend: str) -> Accelerator:
    return BY_BACKEND.get(backend, NO_ACCELERATOR)


def detect_devices(environ: Mapping[str, str] | None = None) -> Devices:
    """Return the accelerators of this machine, of the first vendor that has any; by default os.environ limits them."""
    every = (one.detect(os.environ if environ is None else environ) for one in BY_BACKEND.values())
    return next((devices for devices in every if devices.products), Devices())


def _visible_product(products: tuple[str, ...], word: str) -> str:
    return products[int(word)] if word.isdecimal() and int(word) < len(products) else UNKNOWN


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def _read_nvml() -> Devices | None:
    with _nvml() as library:
        if library is None:
            return None
        version = ctypes.c_int(0)
        is_known = library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == 0
        return Devices(
            products=tuple(_name(library, index) for index in range(_count(library))),
            driver=_text(library.nvmlSystemGetDriverVersion),
            runtime=f"{version.value // 1000}.{version.value % 1000 // 10}" if is_known else "",
        )


@contextlib.contextmanager
def _nvml() -> Iterator[ctypes.CDLL | None]:
    """Yield the initialized library, or None where it is missing or does not work."""
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
    """Return null for a GPU that is lost; NVML's other functions then return an error."""
    handle = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
    return handle


def _name(library: ctypes.CDLL, index: int) -> str:
    handle = _handle(library, index)
    return _text(lambda buffer, size: library.nvmlDeviceGetName(handle, buffer, size)) or UNKNOWN


def _text(read: Callable[[object, int], int]) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    return buffer.value.decode(errors="replace") if read(buffer, NAME_BYTES) == 0 else ""
