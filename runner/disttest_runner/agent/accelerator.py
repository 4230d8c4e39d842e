"""The accelerators of this pod. No other module of the agent depends on their vendor.

No function here starts a driver in the calling process: a process that has started CUDA's cannot be forked any more.
"""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from disttest_runner.compat import override

NAME_BYTES = 96
BUSY_BYTES = 2 << 30  # more than a driver keeps for itself
CUDA_SECONDS = 60  # a driver that is loaded for the first time takes long
UNKNOWN = "unknown"
SHARE_GPUS = "NCCL_MULTI_RANK_GPU_ENABLE"  # of NCCL 2.30 and newer: "1" allows several ranks on one GPU

# The loader finds the library that ranks will use: that of the driver, or of the image's compatibility package, which
# supports a newer CUDA than the driver.
TRY_CUDA = f"""
import ctypes, json
try:
    library = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    raise SystemExit(str(error))
number = ctypes.c_int()
found = {{"version": number.value if library.cuDriverGetVersion(ctypes.byref(number)) == 0 else 0}}
code = library.cuInit(0)
if code:
    text = ctypes.c_char_p()
    library.cuGetErrorString(code, ctypes.byref(text))
    found |= {{"code": code, "text": (text.value or b"unknown").decode()}}
elif library.cuDeviceGetCount(ctypes.byref(number)) == 0:
    found["names"] = []
    for index in range(number.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer({NAME_BYTES})
        is_known = library.cuDeviceGet(ctypes.byref(device), index) == 0
        is_known = is_known and library.cuDeviceGetName(name, {NAME_BYTES}, device) == 0
        found["names"].append(name.value.decode(errors="replace") if is_known else {UNKNOWN!r})
print(json.dumps(found))
"""
# Usual causes, by the code of cuInit; others are clear from the error itself.
CAUSES: Mapping[int, str] = {
    802: "the fabric manager of the node is not running",  # CUDA_ERROR_SYSTEM_NOT_READY
    803: "restart the node after an update of its driver",  # CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
    # CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    804: "the driver is too old for CUDA of the image, and the compatibility package of the image does not support "
    "these GPUs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The accelerators that ranks may use, `products` with one name each, and the versions of their driver."""

    products: tuple[str, ...] = ()
    driver: str = ""
    runtime: str = ""  # the newest CUDA that the driver supports
    error: str = ""  # of the initialization of the driver


class Accelerator:
    """No accelerator. The class of a vendor's devices overrides every method."""

    def detect(self, environ: Mapping[str, str]) -> Devices:  # noqa: ARG002 - for devices that can be hidden
        """Return the devices that `environ` leaves visible."""
        return Devices()

    def used_bytes(self, environ: Mapping[str, str]) -> Mapping[str, int]:  # noqa: ARG002 - same
        """Return the memory in use on each device that `environ` leaves visible, by name; empty if it is not known."""
        return {}

    def initialized(self, found: Devices) -> Devices:
        """Return what the driver reports about itself and its devices. Takes seconds if a driver is broken."""
        return found


class Cuda(Accelerator):
    """NVIDIA's GPUs, read through NVML."""

    @override
    def detect(self, environ: Mapping[str, str]) -> Devices:
        """Count device files where there is no NVML."""
        with _nvml() as library:
            if library is None:
                files = sorted(Path("/dev").glob("nvidia[0-9]*"))
                gpus = [Gpu(name=file.name, uuid="", product=UNKNOWN) for file in files]
                return Devices(products=tuple(gpu.product for gpu in visible(gpus, environ)))
            version = ctypes.c_int(0)
            is_known = library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)) == 0
            return Devices(
                products=tuple(gpu.product for gpu in visible(_gpus(library), environ)),
                driver=_text(library.nvmlSystemGetDriverVersion),
                runtime=_version(version.value) if is_known else "",
            )

    @override
    def used_bytes(self, environ: Mapping[str, str]) -> Mapping[str, int]:
        """Other GPUs of a shared machine are of other users."""
        with _nvml() as library:
            if library is None:
                return {}
            found = {}
            for gpu in visible(_gpus(library), environ):
                handle, memory = ctypes.c_void_p(), _Memory()
                if library.nvmlDeviceGetHandleByUUID(gpu.uuid.encode(), ctypes.byref(handle)) != 0:
                    return {}
                if library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
                    return {}
                found[gpu.name] = int(memory.used)
            return found

    @override
    def initialized(self, found: Devices) -> Devices:
        """Takes a process and up to CUDA_SECONDS. The driver knows best how many devices a process can use."""
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
            return replace(found, error=f"the initialization did not finish within {CUDA_SECONDS} s")
        if done.returncode < 0:
            return replace(found, error=f"the process that initializes CUDA was killed by signal {-done.returncode}")
        if done.returncode:
            return replace(found, error=(done.stderr.strip().splitlines() or ["no error message"])[-1])
        try:  # a library may print as well
            answer = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        except (StopIteration, ValueError):
            return replace(found, error="the process that initializes CUDA printed no answer")
        found = replace(found, runtime=_version(answer["version"]) or found.runtime)
        if "code" in answer:
            cause = CAUSES.get(answer["code"], "")
            error = f"cuInit returned {answer['code']}: {answer['text']}{f' ({cause})' if cause else ''}"
            return replace(found, error=error)
        return replace(found, products=tuple(answer.get("names", found.products)))


NO_ACCELERATOR = Accelerator()
BY_BACKEND: Mapping[str, Accelerator] = {"nccl": Cuda(), "gloo": NO_ACCELERATOR}  # a row for each backend of torch


def of_backend(backend: str) -> Accelerator:
    return BY_BACKEND.get(backend, NO_ACCELERATOR)


def detect_devices(environ: Mapping[str, str] | None = None) -> Devices:
    """Return the accelerators of this machine, of the first vendor that has any; by default os.environ limits them."""
    every = (one.detect(os.environ if environ is None else environ) for one in BY_BACKEND.values())
    return next((devices for devices in every if devices.products), Devices())


def busy(used_bytes: Mapping[str, int]) -> tuple[str, ...]:
    """Describe the devices that other processes use."""
    return tuple(f"{name}: {used / 2**30:.1f} GiB" for name, used in used_bytes.items() if used > BUSY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or an instance of a GPU that MIG has divided."""

    name: str  # for messages
    uuid: str  # empty if it is not known
    product: str
    instances: tuple["Gpu", ...] = ()


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that a CUDA process can use, in its order, as CUDA reads CUDA_VISIBLE_DEVICES.

    A process sees a single MIG instance, and then no other GPU.
    """
    instances = [instance for gpu in gpus for instance in gpu.instances]
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    usual = instances[:1] or list(gpus)
    if listed is None:
        return tuple(usual)
    if environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and len({gpu.product for gpu in usual}) > 1:
        # CUDA counts the fastest GPU first. Its order is unknown here.
        usual = [Gpu(name=f"CUDA device {index}", uuid="", product=UNKNOWN) for index in range(len(usual))]
    found: list[Gpu] = []
    for word in map(str.strip, listed.split(",")):
        gpu = _named(word, gpus, instances) if word.startswith(("GPU-", "MIG-")) else _numbered(word, usual)
        if gpu is None:
            break  # CUDA ignores an entry that is not valid, and all after it
        if gpu in found:
            return ()  # CUDA refuses a list with duplicates
        found.append(gpu)
        if gpu in instances:
            break
    return tuple(found)


def _numbered(word: str, usual: Sequence[Gpu]) -> Gpu | None:
    return usual[int(word)] if word.isdecimal() and int(word) < len(usual) else None


def _named(word: str, gpus: Sequence[Gpu], instances: Sequence[Gpu]) -> Gpu | None:
    """Return the only one whose UUID begins with `word`. Of a divided GPU a process sees the first instance."""
    if gpus and not any(gpu.uuid for gpu in gpus):
        return Gpu(name=word, uuid=word, product=UNKNOWN)
    found = [gpu for gpu in (*gpus, *instances) if gpu.uuid.startswith(word)]
    return (found[0].instances or (found[0],))[0] if len(found) == 1 else None


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


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


def _gpus(library: ctypes.CDLL) -> list[Gpu]:
    """Return all GPUs. A GPU that is lost has neither UUID nor product."""
    number, found = ctypes.c_uint(0), []
    is_known = library.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 0
    for index in range(number.value if is_known else 0):
        handle = ctypes.c_void_p()
        library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        found.append(_gpu(library, handle, f"GPU {index}", _instances(library, handle, index)))
    return found


def _instances(library: ctypes.CDLL, gpu: ctypes.c_void_p, index: int) -> tuple[Gpu, ...]:
    """Return the MIG instances of a GPU that this pod may use."""
    mode, pending, most = ctypes.c_uint(0), ctypes.c_uint(0), ctypes.c_uint(0)
    if library.nvmlDeviceGetMigMode(gpu, ctypes.byref(mode), ctypes.byref(pending)) != 0 or not mode.value:
        return ()
    if library.nvmlDeviceGetMaxMigDeviceCount(gpu, ctypes.byref(most)) != 0:
        return ()
    found = []
    for number in range(most.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, number, ctypes.byref(handle)) == 0:
            found.append(_gpu(library, handle, f"MIG instance {number} of GPU {index}"))
    return tuple(found)


def _gpu(library: ctypes.CDLL, handle: ctypes.c_void_p, name: str, instances: tuple[Gpu, ...] = ()) -> Gpu:
    return Gpu(
        name=name,
        uuid=_text(lambda buffer, size: library.nvmlDeviceGetUUID(handle, buffer, size)),
        product=_text(lambda buffer, size: library.nvmlDeviceGetName(handle, buffer, size)) or UNKNOWN,
        instances=instances,
    )


def _text(read: Callable[[object, int], int]) -> str:
    buffer = ctypes.create_string_buffer(NAME_BYTES)
    return buffer.value.decode(errors="replace") if read(buffer, NAME_BYTES) == 0 else ""
