"""Fixtures that all layers share."""

from tests.support.cluster import cluster, namespace
from tests.support.stub_nodes import stub_nodes

__all__ = ["cluster", "namespace", "stub_nodes"]
