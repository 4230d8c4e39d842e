"""The file with the kernel's count of processes killed for lack of memory."""

from pathlib import Path

import pytest

from disttest_runner.linux.resource_limits import events_file


@pytest.mark.parametrize(
    ("memberships", "file"),
    [
        ("0::/kubepods/pod1/abc\n", "kubepods/pod1/abc/memory.events"),
        ("0::/\n", "memory.events"),
        ("0::/kubepods/pod1/abc\n", "memory.events"),  # the container sees its own cgroup as the root
        ("4:memory:/docker/abc\n0::/\n", "memory/docker/abc/memory.oom_control"),
        ("4:cpu,memory:/docker/abc\n", "memory/memory.oom_control"),
        ("3:cpuset:/\n", ""),
    ],
)
def test_the_file_is_found(tmp_path: Path, memberships: str, file: str) -> None:
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert events_file(memberships, tmp_path) == (tmp_path / file if file else None)
