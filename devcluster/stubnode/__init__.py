"""Stub nodes: one process that is many nodes, and whose pods run nothing."""
