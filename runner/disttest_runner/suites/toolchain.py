"""What inductor needs to compile on a node: programs and headers, which images of torch often lack."""

import os
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path

# The scheme that triton and inductor use, also with Debian's Python.
INCLUDE = Path(sysconfig.get_path("include", scheme="posix_prefix"))
C_COMPILERS = ("gcc", "clang")  # that triton tries if CC is not set


def why_inductor_cannot(device_type: str) -> str:
    """Return what inductor needs and does not find; empty if it can compile for the device."""
    if device_type == "cuda":
        from torch.utils._triton import has_triton

        if not has_triton():
            return "inductor needs triton, and a GPU that triton supports"
        return why_triton_cannot(os.environ, INCLUDE)
    from torch._inductor import cpp_builder, exc

    try:
        compiler = cpp_builder.get_cpp_compiler()
    except (exc.InvalidCxxCompiler, RuntimeError) as error:
        return f"inductor needs a C++ compiler on CPUs: {str(error).splitlines()[0]}"
    if not has_headers(INCLUDE):
        return f"inductor needs the headers of Python on CPUs, in addition to {compiler}"
    return ""


def why_triton_cannot(environ: Mapping[str, str], include: Path) -> str:
    """Return what triton needs to build its launchers of kernels, which are C extensions of Python."""
    candidates = (environ["CC"],) if "CC" in environ else C_COMPILERS
    found = (shutil.which(name, path=environ.get("PATH")) for name in candidates)
    compiler = next((path for path in found if path), "")
    if not compiler:
        return f"triton needs a C compiler on GPUs, but finds no {' or '.join(candidates)}"
    if not has_headers(include):
        return f"triton needs the headers of Python on GPUs, in addition to {compiler}: {include} has no Python.h"
    return ""


def has_headers(include: Path) -> bool:
    return (include / "Python.h").is_file()
