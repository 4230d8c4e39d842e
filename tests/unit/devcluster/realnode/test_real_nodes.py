"""Configuration of real nodes, their requirements, and their removal."""

import tomllib
from pathlib import Path

import pytest

from devcluster import real_node_setup
from devcluster.machine import cache
from devcluster.machine.settings import DevClusterError
from devcluster.programs import packages
from devcluster.realnode import cgroups, configuration, containerd_store


@pytest.fixture
def hierarchies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of cgroups, version 1, as plain folders."""
    for name in (*cgroups.CONTROLLERS, "unified"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "cgroup.procs").touch()
    for file in cgroups.INHERITED:
        (tmp_path / "cpuset" / file).write_text("0-1")
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    return tmp_path


def test_containerd_reads_its_configuration_and_finds_everything_in_the_nodes_folders() -> None:
    folders = {name: Path("/state", name) for name in ("root", "hosts", "cni", "plugins")}
    read = tomllib.loads(configuration.containerd(**folders))
    cri = read["plugins"]["io.containerd.grpc.v1.cri"]
    assert read["root"] == "/state/root"
    assert cri["registry"]["config_path"] == "/state/hosts"
    assert cri["cni"] == {"bin_dir": "/state/plugins", "conf_dir": "/state/cni"}
    assert cri["sandbox_image"].startswith(f"{configuration.REGISTRY}/")


def test_containerd_has_the_address_of_the_registry() -> None:
    read = tomllib.loads(configuration.registry_host("http://10.0.0.1:5000"))
    assert read["server"] == "http://10.0.0.1:5000"
    assert read["host"]["http://10.0.0.1:5000"]["capabilities"] == ["pull", "resolve"]


def test_pods_of_two_nodes_never_get_the_same_address() -> None:
    ranges = [configuration.cni(number)["plugins"][0]["ipam"]["ranges"][0][0] for number in (1, 2)]
    assert [one["rangeStart"] for one in ranges] == ["10.244.1.10", "10.244.2.10"]


def test_a_new_cgroup_accepts_processes_and_is_removed_with_all_below_it(hierarchies: Path) -> None:
    cgroups.create(f"{cgroups.MARK}x/1")
    assert (hierarchies / "cpuset" / f"{cgroups.MARK}x").is_dir()
    assert cgroups.of_clusters() == {f"{cgroups.MARK}x"}
    cgroups.remove(f"{cgroups.MARK}x")
    assert cgroups.of_clusters() == set()


def test_a_missing_controller_is_named(hierarchies: Path) -> None:
    (hierarchies / "pids" / "cgroup.procs").unlink()
    assert cgroups.missing_controllers() == ["pids"]


def test_an_ordinary_user_gets_an_error_about_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "real nodes need root: run as root, or with sudo" in real_node_setup.reasons_why_not()


def test_too_little_disk_is_reported_with_both_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISTTEST_CACHE", str(tmp_path / "not" / "yet"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1 << 30}))
    assert "14 are needed" in real_node_setup.shortages(unpacks=True)[0]
    (problem,) = real_node_setup.shortages()
    room = f"1.0 GiB are free in {cache.root()}, {real_node_setup.RUN_GIB} are needed"
    assert problem == f"{room}: free disk space, or set DISTTEST_CACHE"


def test_leftovers_are_listed_and_removed(hierarchies: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DISTTEST_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(("left", "used")):
        for folder in hierarchies.iterdir():
            if folder.is_dir() and folder.name != "cache":
                (folder / f"{cgroups.MARK}{name}").mkdir()
                (folder / f"{cgroups.MARK}{name}" / "cgroup.procs").write_text("1\n" * number)
    state = cache.cluster("killed")
    (state / "nodes" / "real1").mkdir(parents=True)
    expected = [f"cgroup {cgroups.MARK}left", f"files in {state / 'nodes'}"]
    assert real_node_setup.leftovers() == expected
    monkeypatch.setattr(cgroups, "remove", lambda name: expected.append(f"removed {name}"))
    assert real_node_setup.clean() == expected[:2]
    assert expected[2:] == [f"removed {cgroups.MARK}left"]
    assert not (state / "nodes").exists()


def test_unpacked_programs_and_libraries_come_before_the_machines_own(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    environment = packages.environment(tmp_path)
    assert environment["PATH"].split(":")[0] == str(tmp_path / "usr/bin")
    assert environment["LD_LIBRARY_PATH"].split(":")[0] == str(tmp_path / "usr/lib/x86_64-linux-gnu")


def test_missing_images_are_reported_with_the_command_that_builds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DISTTEST_CACHE", str(tmp_path))
    monkeypatch.setattr(real_node_setup, "reasons_why_not", list)
    monkeypatch.setattr(real_node_setup, "shortages", lambda **_: [])
    with pytest.raises(DevClusterError, match="there are no images yet; build them with: make images"):
        real_node_setup.real_nodes(2, tmp_path / "state", print)


def test_all_missing_requirements_are_reported_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(real_node_setup, "reasons_why_not", lambda: ["one"])
    monkeypatch.setattr(real_node_setup, "shortages", lambda **_: ["two"])
    with pytest.raises(DevClusterError, match="one; two"):
        real_node_setup.real_nodes(2, tmp_path, print)


def test_an_image_is_known_by_its_tag_and_by_its_digest() -> None:
    assert containerd_store.names_of("registry.devcluster/a:dev@sha256:1") == (
        "registry.devcluster/a:dev",
        "registry.devcluster/a@sha256:1",
    )
