"""Starting and ending development clusters: nothing remains, and other clusters are not changed."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import command_line
from devcluster.machine.settings import REPOSITORY
from tests.support import patience
from tests.support.clusters.cluster import SessionCluster, fresh_cluster
from tests.support.clusters.pods import DEAF, SLEEP_ON, a_container, a_pod, container_state, run_pod


def all_processes() -> list[Path]:
    return [place for place in Path("/proc").iterdir() if place.name.isdigit()]


def members(namespace: Path) -> set[int]:
    """The processes, by their numbers here, that are in a PID namespace."""
    found = set()
    for place in all_processes():
        with contextlib.suppress(OSError):
            if (place / "ns/pid_for_children").readlink() == namespace:
                found.add(int(place.name))
    return found


def links() -> str:
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout


def wait_for(description: str, condition: Callable[[], Any], seconds: float = 30) -> None:
    patience.wait_until(description, condition, seconds)


def test_a_second_cluster_runs_next_to_the_first_and_leaves_nothing_behind(
    cluster: SessionCluster, tmp_path: Path
) -> None:
    if cluster.dev is None:
        pytest.skip("uses the clusters of this machine, and KUBECONFIG chose another one")
    links_before = links()
    with fresh_cluster(tmp_path, print, nodes=1, rootless=True) as second:
        assert second.dev is not None
        pid_namespace = Path(f"/proc/{second.dev.first_process()}/ns/pid").readlink()
        second.wait_until("its ServiceAccount", lambda: second.get("serviceaccount", "default"))
        ended = run_pod(second, a_pod("only-there", a_container("print('here')")), "default")
        assert ended["exitCode"] == 0
        assert cluster.get("pod", "only-there") is None
        second.apply(a_pod("stays", a_container(DEAF + SLEEP_ON)))
        second.wait_until("a pod runs", lambda: "running" in container_state(second, "stays", "default"))
        assert len(members(pid_namespace)) > 6
    assert members(pid_namespace) == set()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert links() == links_before


@pytest.fixture
def foreground(cluster: SessionCluster, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`up --foreground` as a child process, and its state directory."""
    if cluster.dev is None:
        pytest.skip("uses the clusters of this machine, and KUBECONFIG chose another one")
    state = tmp_path / "owned"
    command = [sys.executable, "-m", "devcluster", "--state", str(state), "up", "--foreground", "--nodes", "1"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as owner:
        yield owner, state
        owner.kill()


def in_cluster(state: Path) -> set[int]:
    """The processes of a cluster: all of its programs run in its state directory, but for PID 1, which names it."""
    found = set()
    for place in all_processes():
        with contextlib.suppress(OSError):
            works_there = (place / "cwd").readlink().is_relative_to(state)
            if (
                works_there
                or f"devcluster.controlplane.supervisor\0{state}".encode() in (place / "cmdline").read_bytes()
            ):
                found.add(int(place.name))
    return found


@pytest.mark.parametrize(
    ("reached", "number", "code"),
    [
        ("cluster.pid", signal.SIGKILL, -9),
        pytest.param("logs/kube-apiserver.log", signal.SIGINT, 130, marks=pytest.mark.soak),
        ("ready.json", signal.SIGKILL, -9),
        pytest.param("ready.json", signal.SIGTERM, 143, marks=pytest.mark.soak),
    ],
    ids=["killed at the start", "interrupted half way", "killed when ready", "asked to end when ready"],
)
def test_a_cluster_ends_with_its_owner(
    foreground: tuple[subprocess.Popen[bytes], Path], reached: str, number: signal.Signals, code: int
) -> None:
    owner, state = foreground
    wait_for(f"{reached} of the cluster", (state / reached).exists)
    wait_for("a process of the cluster", lambda: in_cluster(state))
    owner.send_signal(number)
    assert owner.wait(timeout=patience.stretched(20)) == code
    wait_for("every process of the cluster is gone", lambda: not in_cluster(state))


# ---- whose cluster


@pytest.mark.parametrize(
    ("environment", "used"),
    [({}, False), ({"KUBECONFIG": "theirs"}, False), ({"KUBECONFIG": "theirs", command_line.OPT_IN: "1"}, True)],
    ids=["none", "inherited", "chosen"],
)
def test_an_inherited_kubeconfig_is_used_by_explicit_choice_only(
    environment: dict[str, str],
    *,
    used: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs").touch()
    for name in ("KUBECONFIG", command_line.OPT_IN):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert command_line.foreign_kubeconfig() == (tmp_path / "theirs" if used else None)
