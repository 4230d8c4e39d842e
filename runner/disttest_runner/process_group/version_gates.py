"""Faults of single versions of torch and NCCL that DistTest avoids. Pure: versions are passed in.

A probe of these faults would hang, or end the group that it is tried in.
"""

import re

NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
HANGS_WITH_DEVICE_ID = (2, 7, 0)  # pytorch/pytorch#153960, also in builds before the release
FIRST_CHECKED_HOST_BUFFERS = (2, 26, 5)
FLOAT8_OF_NCCL = (2, 8)  # earlier versions of torch send float8 as bytes
FLOAT8_REFUSED = ((2, 24), (2, 28))  # from, before: later versions refuse it in sums only
FLOAT8_CAPABILITY = (9, 0)

Version = tuple[int, int, int]


def parse(version: str) -> Version | None:
    """Return the first three numbers of `2.7.0a0+7c8ec84` or `2.26.2`; None if there are none."""
    found = NUMBERS.match(version)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def takes_device_id(torch_version: str) -> bool:
    """Whether init_process_group() may be given a device: with torch 2.7.0 collectives then hang at random."""
    return parse(torch_version) != HANGS_WITH_DEVICE_ID


def assumes_host_buffers(nccl_version: str) -> bool:
    """Whether NCCL uses CUDA's host buffers without checking that they work.

    They need system calls for memory policies, which the seccomp profile RuntimeDefault of pods forbids.
    """
    version = parse(nccl_version)
    return version is not None and version < FIRST_CHECKED_HOST_BUFFERS


def float8_gap(nccl_version: str, torch_version: str, capability: tuple[int, int]) -> str:
    """Return why collectives of float8 fail on a GPU with this compute capability; empty if they do not."""
    nccl, torch = parse(nccl_version), parse(torch_version)
    first, after = FLOAT8_REFUSED
    is_refusing = nccl is not None and first <= nccl[:2] < after and (torch is None or torch[:2] >= FLOAT8_OF_NCCL)
    if not is_refusing or capability >= FLOAT8_CAPABILITY:
        return ""
    return f"NCCL {nccl_version} refuses float8 below compute capability 9.0, and this GPU has {_dotted(capability)}"


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
