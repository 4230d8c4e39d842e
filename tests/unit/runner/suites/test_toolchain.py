"""Inductor is asked for GPUs only where triton can build its launchers: with a C compiler and Python's headers."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from disttest_runner.suites import toolchain  # noqa: E402 - it imports torch


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    return tmp_path / "include"


def programs(folder: Path, *names: str) -> str:
    """Return a PATH with these programs only."""
    folder.mkdir()
    for name in names:
        (folder / name).touch(mode=0o755)
    return str(folder)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_triton_builds_with_a_c_compiler_in_the_path_and_headers(compiler: str, include: Path, tmp_path: Path) -> None:
    environ = {"PATH": programs(tmp_path / "bin", compiler)}
    assert toolchain.why_triton_cannot(environ, include) == ""


def test_the_compiler_of_the_environment_is_the_only_one(include: Path, tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", "gcc", "icx")
    assert toolchain.why_triton_cannot({"PATH": path, "CC": "icx"}, include) == ""
    reason = toolchain.why_triton_cannot({"PATH": path, "CC": "/no/such/cc"}, include)
    assert reason == "triton needs a C compiler on GPUs, but finds no /no/such/cc"


def test_no_compiler_is_a_reason(include: Path, tmp_path: Path) -> None:
    reason = toolchain.why_triton_cannot({"PATH": programs(tmp_path / "bin", "g++")}, include)
    assert reason == "triton needs a C compiler on GPUs, but finds no gcc or clang"


def test_missing_headers_are_a_reason(tmp_path: Path) -> None:
    reason = toolchain.why_triton_cannot({"PATH": programs(tmp_path / "bin", "gcc")}, tmp_path)
    assert reason.startswith("triton needs the headers of Python on GPUs, in addition to ")
    assert f"{tmp_path} has no Python.h" in reason


def test_triton_alone_is_not_enough_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)
    monkeypatch.setenv("CC", "/no/such/cc")
    assert "C compiler" in toolchain.why_inductor_cannot("cuda")
