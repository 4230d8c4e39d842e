"""Manifests of an attempt: Job, Service, pods, run plan."""
