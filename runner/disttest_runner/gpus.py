"""How many GPUs this pod has been given, asked without starting the driver in a process that lives on."""

import ctypes
import os
from pathlib import Path


def count() -> int:
    """By CUDA_VISIBLE_DEVICES if set, else by NVML, else by device files."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word.strip() and word.strip() != "-1"])
    return _by_nvml() or sum(1 for path in Path("/dev").glob("nvidia[0-9]*"))


def _by_nvml() -> int:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return 0
    number = ctypes.c_uint(0)
    if library.nvmlInit_v2() != 0:
        return 0
    try:
        return number.value if library.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 0 else 0
    finally:
        library.nvmlShutdown()
