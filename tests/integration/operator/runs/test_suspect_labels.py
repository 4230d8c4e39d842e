"""Suspect nodes get a label if the operator is configured so, with only the required permissions."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.stub_nodes import ON_STUB_NODES, stub_template
from tests.support.operators.operator import MANIFESTS, StartOperator, disttest, finished, reaches_phase

LABEL = "disttest.dev/suspect"
TAINT = "disttest-maintenance=yes:NoExecute"


@pytest.fixture
def _right_to_label_nodes(cluster: SessionCluster) -> Iterator[None]:
    """Not for the tests after these."""
    rights = str(MANIFESTS / "rbac" / "suspects" / "nodes.yaml")
    cluster.kubectl("apply", "-f", rights)
    yield
    cluster.kubectl("delete", "-f", rights)


@pytest.mark.usefixtures("_right_to_label_nodes")
def test_a_blamed_node_has_the_label_until_a_newer_run_passes_there(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str, stub_nodes: tuple[str, ...]
) -> None:
    usual = {"nodes": 1, "series": "labels", "retries": {"infrastructure": 1}}

    def node(name: str) -> dict[str, Any]:
        return cluster.get("node", name, "") or {}

    with start_operator("--label-suspect-nodes", log="labels.log") as operator:
        cluster.apply(disttest(namespace, "first", template=stub_template(seconds=3), **usual))
        reaches_phase(cluster, namespace, "first", "Running")
        (pod,) = cluster.find("pods", namespace, "disttest.dev/name=first")
        blamed = pod["spec"]["nodeName"]
        with cluster.tainted(blamed, TAINT):
            assert finished(cluster, namespace, "first")["verdict"] == "Passed"
            cluster.wait_until("the label is there", lambda: LABEL in node(blamed)["metadata"]["labels"], 20)
            assert node(blamed)["metadata"]["labels"][LABEL] == "NodeLost"
            assert len(node(blamed)["spec"]["taints"]) == 2, "the stub's and the test's own"
            assert "unschedulable" not in node(blamed)["spec"]
        there = {"nodeSelector": {"kubernetes.io/hostname": blamed}}
        cluster.apply(disttest(namespace, "second", template={"spec": ON_STUB_NODES | there}, **usual))
        assert finished(cluster, namespace, "second")["verdict"] == "Passed"
        cluster.wait_until("the label is gone", lambda: LABEL not in node(blamed)["metadata"]["labels"], 20)
        assert "suspect nodes could not be labelled" not in operator.log.read_text()
