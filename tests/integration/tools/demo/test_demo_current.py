"""`make demo CLUSTER=current`: it leaves a cluster as it was, and does not touch an installation that is there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.cluster import SessionCluster, fresh_cluster, say_aloud
from tools.demo.session import ROOT

DEMO_SECONDS = 600
KINDS = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,priorityclasses"
)
SUITE = "fsdp-exec-order"


@pytest.fixture(scope="module")
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    """A cluster in which nothing is installed."""
    with fresh_cluster(tmp_path_factory.mktemp("bare"), say_aloud(request.config), nodes=2) as cluster:
        yield cluster


def objects(cluster: SessionCluster) -> set[str]:
    return set(cluster.kubectl("get", KINDS, "-o", "name").split())


def demo(cluster: SessionCluster, folder: Path) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(cluster.program[0])
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "DISTTEST_CACHE": str(folder),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOLD": "",
    }
    return subprocess.run(
        [sys.executable, "-m", "tools.demo.demo", "--cluster", "current", "--suites", SUITE],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )


def test_the_demo_runs_on_the_current_cluster_and_leaves_nothing_there(bare: SessionCluster, tmp_path: Path) -> None:
    before = objects(bare)
    done = demo(bare, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "== using the current cluster: context dev, https://127.0.0.1:" in done.stdout
    assert "demo: Passed (AllCasesPassed)" in done.stdout
    assert (tmp_path / "demo" / "report.html").exists()
    assert objects(bare) == before


def test_the_demo_refuses_a_cluster_that_has_disttest_and_leaves_it_alone(bare: SessionCluster, tmp_path: Path) -> None:
    bare.kubectl("apply", "-f", str(ROOT / "manifests" / "crd" / "disttests.yaml"))
    before = objects(bare)
    done = demo(bare, tmp_path)
    assert done.returncode == 1
    assert "demo: DistTest is installed there already (customresourcedefinition" in done.stderr
    assert objects(bare) == before
