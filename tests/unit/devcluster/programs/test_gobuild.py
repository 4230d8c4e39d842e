"""A fake Go that writes a file: which files are searched, and when Go is required."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster.machine.settings import DevClusterError
from devcluster.programs import gobuild
from devcluster.programs.gobuild import GoProgram

GO = """#!/bin/sh
case "$1" in
  env) echo go1.26.8 ;;
  list) printf 'fmt\\nos\\n' ;;
  build) echo fmt; while [ "$1" != -o ]; do shift; done; echo built > "$2" ;;
esac
"""


def a_go(folder: Path) -> Path:
    folder.mkdir(parents=True)
    go = folder / "go"
    go.write_text(GO)
    go.chmod(0o755)
    return go


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoProgram:
    source = tmp_path / "source"
    source.mkdir()
    (source / "go.mod").write_text("module one\n")
    monkeypatch.setattr(gobuild, "INSTALLED_GO", tmp_path / "nothing")
    return GoProgram(
        title="One", source=source, inputs=("go.mod",), linker="-s", home=tmp_path / "home", name="one", minutes=1
    )


def test_a_binary_in_the_cache_needs_no_go(program: GoProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a login shell, whose PATH lacks /usr/local/go/bin."""
    go = a_go(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    built = gobuild.build(program, print)
    shutil.rmtree(go.parent)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gobuild.build(program, print) == built
    assert gobuild.cached(program) == built


def test_a_binary_of_other_inputs_is_not_taken(
    program: GoProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = a_go(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    gobuild.build(program, print)
    (program.source / "go.mod").write_text("module another\n")
    assert gobuild.cached(program) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevClusterError, match="Go is not installed; One is built with"):
        gobuild.build(program, print)


def test_go_is_found_where_its_installer_puts_it(
    program: GoProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gobuild, "INSTALLED_GO", a_go(tmp_path / "usr-local-go-bin"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert gobuild.build(program, print).read_text() == "built\n"


@pytest.mark.parametrize(
    ("done", "total", "seconds", "expected"),
    [
        (0, 100, 50, ""),
        (1, 100, 50, ""),
        (10, 100, 50, ", about 8 min left"),
        (50, 100, 40, ", about 40 s left"),
        (100, 100, 40, ""),
        (120, 100, 40, ""),
        (5, 0, 40, ""),
    ],
    ids=str,
)
def test_the_time_left_follows_from_what_is_done(done: float, total: float, seconds: float, expected: str) -> None:
    assert gobuild.time_left(done, total, seconds) == expected


@pytest.mark.parametrize(
    ("compiled", "cpu_seconds", "left"),
    [(900, 60, ", about 8 min left"), (900, 700, ", about 10 s left"), (10, 3, "")],
    ids=["by CPU time", "by packages on a slower machine", "not yet"],
)
def test_the_time_left_of_a_build_follows_from_its_cpu_time(compiled: int, cpu_seconds: float, left: str) -> None:
    """The first packages are small: after 60 s of 600 most of 1,000 may be compiled."""
    progress = gobuild._Progress(total=1000, compiled=compiled)
    text = progress.text(50 if cpu_seconds < 600 else 90, cpu_seconds, 600)
    assert text == f"{compiled} of at most 1000 packages compiled{left}"


def test_a_program_with_parts_in_c_needs_a_compiler_and_gets_cgo(
    program: GoProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = a_go(tmp_path / "bin")
    go.write_text(GO.replace("echo built", 'echo "$CGO_ENABLED"'))
    monkeypatch.setenv("PATH", str(go.parent))
    in_c = replace(program, c_compiler=True, home=tmp_path / "c", otherwise="install One")
    with pytest.raises(DevClusterError, match=r"packages gcc and libc6-dev, or install One"):
        gobuild.build(in_c, print)
    (go.parent / "cc").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    assert gobuild.build(in_c, print).read_text() == "1\n"
    assert gobuild.build(program, print).read_text() == "0\n"
