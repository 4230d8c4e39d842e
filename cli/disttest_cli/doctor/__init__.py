"""Checks whether a cluster is ready for DistTests."""
