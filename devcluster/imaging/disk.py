"""Whether there is room for images; asked before anything is written."""

import shutil
from pathlib import Path

GIB = 1 << 30
# Measured with torch 2.13: 9 stay (layers, and compressed ones in the registry), 14 at most while a layer is made.
FIRST_GIB = 16
LATER_GIB = 2


def shortage(free_bytes: int, folder: Path, *, is_first: bool) -> str:
    """One line with the remedy; empty if there is room."""
    needed = FIRST_GIB if is_first else LATER_GIB
    if free_bytes >= needed * GIB:
        return ""
    build = "the first build of the images" if is_first else "a build of the images"
    return (
        f"{build} needs {needed} GiB in {folder}, {free_bytes / GIB:.1f} GiB are free: "
        "make room, or name another place as DISTTEST_CACHE"
    )


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(existing(folder)).free


def existing(folder: Path) -> Path:
    """It, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.exists())
