"""Stub nodes in the session's cluster: runs on them take no time and end as their annotations specify."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.controlplane.lifecycle import DIE_WITH_OWNER
from devcluster.machine.settings import REPOSITORY, stub_names
from devcluster.stubnode import behaviour
from tests.support.clusters.cluster import SessionCluster

COUNT = 4
READY_SECONDS = 30
ON_STUB_NODES = {
    "nodeSelector": {behaviour.NODE: "true"},
    "tolerations": [{"key": behaviour.NODE, "operator": "Exists", "effect": "NoSchedule"}],
}


def stub_template(**words: Any) -> dict[str, Any]:
    """The template of a DistTest for stub nodes: `stub_template(end="fail", seconds=2)`."""
    notes = {f"{behaviour.PREFIX}/{word.replace('_', '-')}": str(value) for word, value in words.items()}
    return {"metadata": {"annotations": notes}, "spec": ON_STUB_NODES}


def silence(cluster: SessionCluster, node: str, *, is_silent: bool = True) -> None:
    cluster.kubectl("annotate", "node", node, f"{behaviour.SILENT}={str(is_silent).lower()}", "--overwrite")


@pytest.fixture(scope="session")
def stub_nodes(cluster: SessionCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Their names. Only pods that tolerate them come, so other tests do not meet them."""
    if cluster.dev is None:
        pytest.skip("stub nodes live in the network of a cluster of ours, and KUBECONFIG chose another one")
    log = tmp_path_factory.mktemp("stubs") / "stubs.log"
    module = (sys.executable, "-m", "devcluster.stubnode", str(cluster.dev.state), str(COUNT), "--taint")
    command = cluster.dev.command_inside([*DIE_WITH_OWNER, *module])
    names = stub_names(COUNT)
    with log.open("wb") as out, subprocess.Popen(command, cwd=REPOSITORY, stdout=out, stderr=out) as process:
        try:
            cluster.wait_until("stub nodes are Ready", lambda: _are_ready(cluster, names), READY_SECONDS)
            yield names
        finally:
            process.kill()
            cluster.kubectl("delete", "node", *names, "--wait=false", check=False)


def _are_ready(cluster: SessionCluster, names: tuple[str, ...]) -> bool:
    found = json.loads(cluster.kubectl("get", "nodes", "-l", behaviour.NODE, "-o", "json"))["items"]
    ready = {
        node["metadata"]["name"]
        for node in found
        for condition in node["status"].get("conditions") or ()
        if condition["type"] == "Ready" and condition["status"] == "True" and len(node["spec"].get("taints", ())) == 1
    }
    return ready == set(names)
