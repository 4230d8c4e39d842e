import asyncio
import logging

import pytest

from disttest_operator.controller.lookups import Lookups
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.verdict import capacity
from tests.support.builders.runs import a_spec, a_test
from tests.support.fakes.fake_cluster import FakeCluster

NEEDS_GPUS = a_test(spec=a_spec(gpus_per_node=8, ranks_per_node=8))


@pytest.fixture
def cluster() -> FakeCluster:
    """With a node that has no GPU."""
    made = FakeCluster()
    made.put(Kind.NODE, {"metadata": {"name": "n"}, "status": {}})
    return made


def test_nodes_are_read_once_for_many_reconciles(cluster: FakeCluster) -> None:
    inquiries = Lookups(cluster)
    assert [node.name for node in asyncio.run(inquiries.nodes())] == ["n"]
    asyncio.run(inquiries.nodes())
    assert cluster.reads == ["list nodes"]


def test_without_permission_for_nodes_capacity_is_not_checked_and_that_is_logged_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.refuses_lists.add(Kind.NODE)
    monkeypatch.setattr("disttest_operator.controller.lookups.NODES_FRESH_SECONDS", -1)
    inquiries = Lookups(cluster)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nodes = asyncio.run(inquiries.nodes())
            assert capacity.shortage(NEEDS_GPUS, nodes) == ""
    assert len(cluster.reads) == 3, "the right may be given later"
    [said] = caplog.messages
    assert said.startswith("nodes cannot be listed, so too few GPUs")
    cluster.refuses_lists.clear()
    assert "needs 2 x 8 nvidia.com/gpu, but 0 of 1 nodes" in capacity.shortage(
        NEEDS_GPUS, asyncio.run(inquiries.nodes())
    )
