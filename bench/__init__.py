"""Benchmarks: each prints FIGURE lines. `make bench` runs them all and keeps the newest in docs/figures.txt."""
