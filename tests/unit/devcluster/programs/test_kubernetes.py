"""Which programs of Kubernetes are used, with fakes that only print a version."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from devcluster import command_line
from devcluster.machine.settings import PROGRAMS
from devcluster.programs import gobuild, kubernetes
from devcluster.programs.gobuild import GoProgram, Say

USUAL_ARCHIVE = ("etcd", "kube-apiserver", "kubectl")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no programs anywhere, and what a build would give."""
    binary = tmp_path / "kubedev"

    def pretend(_program: GoProgram, _say: Say) -> Path:
        return binary

    monkeypatch.setenv("DISTTEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv(kubernetes.ASSETS, raising=False)
    monkeypatch.setattr(gobuild, "build", pretend)
    return binary


def a_folder(folder: Path, names: Sequence[str] = PROGRAMS, version: str = "1.34.1", **other: str) -> str:
    folder.mkdir()
    for name in names:
        shown = other.get(name.replace("-", "_"), version)
        program = folder / name
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo Kubernetes v{shown}\n')
        program.chmod(0o755)
    return str(folder)


def commands(binary: Path) -> dict[str, tuple[str, ...]]:
    return {name: (str(binary), name) for name in (*PROGRAMS, "kubelet")}


def test_assets_that_hold_everything_are_used(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kubernetes.ASSETS, a_folder(tmp_path / "assets"))
    assert kubernetes.programs(print) == {name: (str(tmp_path / "assets" / name),) for name in PROGRAMS}


def test_the_usual_archive_of_assets_is_named_with_what_it_lacks_and_all_is_built(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = a_folder(tmp_path / "assets", USUAL_ARCHIVE)
    monkeypatch.setenv(kubernetes.ASSETS, assets)
    said: list[str] = []
    assert kubernetes.programs(said.append) == commands(built)
    problem = "lacks kube-controller-manager, kube-scheduler. All programs are built, or taken from the cache"
    assert said == [f"KUBEBUILDER_ASSETS={assets} is not used, since it {problem}"]


@pytest.mark.parametrize(
    ("version", "other"),
    [("1.30.9", {}), ("1.34.1", {"kube_scheduler": "1.33.0"}), ("what?", {})],
    ids=["older than DistTests need", "of two versions", "not said"],
)
def test_assets_of_a_version_that_does_not_do_are_named_and_all_is_built(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, other: dict[str, str]
) -> None:
    monkeypatch.setenv(kubernetes.ASSETS, a_folder(tmp_path / "assets", PROGRAMS, version, **other))
    said: list[str] = []
    assert kubernetes.programs(said.append) == commands(built)
    assert "one version of all is needed, 1.31 or newer" in said[0]


def test_programs_on_path_are_used_where_that_is_wanted(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", a_folder(tmp_path / "bin"))
    said: list[str] = []
    assert kubernetes.programs(said.append, on_path=True)["etcd"] == (str(tmp_path / "bin" / "etcd"),)
    assert "is not built, since PATH has all of it" in said[0]
    assert kubernetes.programs(said.append) == commands(built)


def test_programs_in_the_cache_come_before_those_on_path(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", a_folder(tmp_path / "bin"))
    monkeypatch.setattr(gobuild, "cached", lambda _program: built)
    assert kubernetes.programs(print, on_path=True) == commands(built)


@pytest.mark.parametrize(("names", "lines"), [(USUAL_ARCHIVE, 1), (("kubectl",), 0)], ids=str)
def test_programs_that_are_not_on_path_are_reported_unless_only_kubectl_is(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: Sequence[str], lines: int
) -> None:
    monkeypatch.setenv("PATH", a_folder(tmp_path / "bin", names))
    said: list[str] = []
    assert kubernetes.programs(said.append, on_path=True) == commands(built)
    assert len(said) == lines


def test_kubectl_of_assets_serves_whatever_else_they_lack(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kubernetes.ASSETS, a_folder(tmp_path / "assets", ("kubectl",)))
    assert command_line.kubectl(print) == (str(tmp_path / "assets" / "kubectl"),)
