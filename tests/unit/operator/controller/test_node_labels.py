"""The label of nodes that runs blame: on and off again, and nothing else on any node."""

import asyncio
from typing import Any

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import CachedSeries
from disttest_operator.controller.status_writer import label_suspect_nodes, suspect_nodes
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from tests.support.builders.runs import at
from tests.support.fakes.fake_cluster import FakeCluster


def blamed(name: str, time: str = "2026-11-21T02:00:00Z", **changes: Any) -> dict[str, Any]:
    return {"name": name, "reason": "NodeLost", "lastTime": time, **changes}


def a_series(name: str, *rows: dict[str, Any]) -> CachedSeries:
    return CachedSeries(
        namespace="gpu-ci", name=name, uid=name, resource_version=1, status={"suspectNodes": list(rows)}
    )


def test_a_node_is_a_suspect_as_long_as_one_series_blames_it() -> None:
    cleared = blamed("node0", clearedTime="2026-11-21T03:00:00Z")
    newer = blamed("node1", "2026-11-21T04:00:00Z", reason="GPUUnhealthy")
    found = suspect_nodes([a_series("a", cleared, blamed("node1")), a_series("b", blamed("node0"), newer)])
    assert found == {"node0": "NodeLost", "node1": "GPUUnhealthy"}


def test_labels_are_added_and_removed_and_correct_ones_are_not_written() -> None:
    cluster, caches = FakeCluster(), Cache(Defaults(image="runner:1"))
    for name, labels in {"node0": {}, "node1": {"disttest.dev/suspect": "NodeLost", "pool": "a"}, "node2": {}}.items():
        cluster.put(Kind.NODE, {"metadata": {"name": name, "labels": labels}})
    body = {"metadata": {"name": "nightly", "namespace": "gpu-ci"}, "status": {"suspectNodes": [blamed("node0")]}}
    caches.put(Kind.SERIES, cluster.put(Kind.SERIES, body), at(0))
    asyncio.run(label_suspect_nodes(cluster, caches.series()))
    assert cluster.done == ["label nodes node0", "label nodes node1"]
    found = {name: body["metadata"]["labels"] for (kind, _, name), body in cluster.objects.items() if kind is Kind.NODE}
    assert found == {"node0": {"disttest.dev/suspect": "NodeLost"}, "node1": {"pool": "a"}, "node2": {}}
    asyncio.run(label_suspect_nodes(cluster, caches.series()))
    assert len(cluster.done) == 2


def test_an_operator_without_permission_to_label_nodes_logs_that_and_continues() -> None:
    cluster = FakeCluster()
    cluster.refuses_lists.add(Kind.NODE)
    asyncio.run(label_suspect_nodes(cluster, []))
