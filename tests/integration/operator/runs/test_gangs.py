"""Gangs that find nodes for some of their pods only."""

from typing import Any

import pytest

from devcluster.stubnode import behaviour
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import StartOperator, config_map, disttest, finished

TAINT = "disttest-busy=yes:NoSchedule"
TOLERATED = [{"key": "disttest-busy", "operator": "Exists"}]
MOST_OF_A_NODE = {"requests": {"cpu": "40"}}  # of 64: two pods do not fit on one


def has_half_a_gang(cluster: SessionCluster, namespace: str, name: str) -> bool:
    pods = cluster.find("pods", namespace, f"disttest.dev/name={name}")
    return sorted(bool(pod["spec"].get("nodeName")) for pod in pods) == [False, True]


@pytest.mark.soak
def test_two_gangs_that_hold_half_of_the_nodes_each_both_come_to_their_end(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str
) -> None:
    """The younger one gives its node back; without that both would wait until queueSeconds."""
    cluster.apply(config_map(namespace, "own", "def test_quick():\n    pass\n"))

    def apply(name: str, **pod: Any) -> None:
        spec = {"resources": MOST_OF_A_NODE, **pod}
        suites = [{"name": "own", "configMap": {"name": "own"}}]
        cluster.apply(disttest(namespace, name, suites=suites, template={"spec": spec}))
        cluster.wait_until(f"{name} has half a gang", lambda: has_half_a_gang(cluster, namespace, name), 30)

    # A twentieth of the patience is left to a run with an older rival.
    with start_operator("--partial-gang-timeout-seconds=100", log="gangs.log"):
        node = cluster.find("nodes", selector=f"!{behaviour.NODE}")[-1]  # other tests also have stub nodes
        with cluster.tainted(node["metadata"]["name"], TAINT):
            apply("older")
            apply("younger", tolerations=TOLERATED)
        older = finished(cluster, namespace, "older", timeout_seconds=60)
        younger = finished(cluster, namespace, "younger", timeout_seconds=90)
    assert (older["verdict"], older["attempt"]) == ("Passed", 1), older
    assert (younger["verdict"], younger["attempt"]) == ("Passed", 2), younger
    first = younger["attempts"][0]
    assert (first["reason"], first["charged"]) == ("GangTimeout", False)
    assert "1 of 2 pods have no node" in first["message"]
