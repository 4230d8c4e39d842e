"""Nodes that runs blame get a label where the operator is told to, with the rights that this needs, and no more."""

from typing import Any

from tests.support.cluster import Cluster
from tests.support.operator import MANIFESTS, StartOperator, config_map, disttest, finished, reaches_phase

LABEL = "disttest.dev/suspect"
TAINT = "disttest-maintenance=yes:NoExecute"
# The first gang sleeps until something befalls it.
PATIENT = """
import socket, time

def test_patient():
    if socket.gethostname().startswith("first-a1-"):
        time.sleep(120)
"""


def test_a_blamed_node_has_the_label_until_a_newer_run_passes_there(
    cluster: Cluster, start_operator: StartOperator, namespace: str
) -> None:
    cluster.kubectl("apply", "-f", str(MANIFESTS / "rbac" / "suspects" / "nodes.yaml"))
    cluster.apply(config_map(namespace, "own", PATIENT))

    def apply(name: str, **template: Any) -> None:
        usual = {"nodes": 1, "series": "labels", "retries": {"infrastructure": 1}}
        suites = [{"name": "own", "configMap": {"name": "own"}}]
        cluster.apply(disttest(namespace, name, suites=suites, template={"spec": template}, **usual))

    def node(name: str) -> dict[str, Any]:
        return cluster.get("node", name, "") or {}

    with start_operator("--label-suspect-nodes", log="labels.log") as operator:
        apply("first")
        reaches_phase(cluster, namespace, "first", "Running")
        (pod,) = cluster.find("pods", namespace, "disttest.dev/name=first")
        blamed = pod["spec"]["nodeName"]
        with cluster.tainted(blamed, TAINT):
            assert finished(cluster, namespace, "first")["verdict"] == "Passed"
            cluster.wait_until("the label is there", lambda: LABEL in node(blamed)["metadata"]["labels"], 20)
            assert node(blamed)["metadata"]["labels"][LABEL] == "NodeLost"
            ours = [taint for taint in node(blamed)["spec"]["taints"] if "disttest" in taint["key"]]
            assert [taint["key"] for taint in ours] == [TAINT.partition("=")[0]], "the test's own"
            assert "unschedulable" not in node(blamed)["spec"]
        apply("second", nodeSelector={"kubernetes.io/hostname": blamed})
        assert finished(cluster, namespace, "second")["verdict"] == "Passed"
        cluster.wait_until("the label is gone", lambda: LABEL not in node(blamed)["metadata"]["labels"], 20)
        assert "labels of suspect nodes are not" not in operator.log.read_text()
