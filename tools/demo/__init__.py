"""Demos: `make demo` and `make demo-monitoring`."""
