"""Fixtures that all layers share."""

from tests.support.cluster import cluster, namespace

__all__ = ["cluster", "namespace"]
