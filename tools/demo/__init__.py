"""Demos on a local cluster: `make demo` and `make demo-monitoring`."""
