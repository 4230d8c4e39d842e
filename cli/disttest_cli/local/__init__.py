"""Runs on this machine, without a cluster."""
