"""Benchmarks print FIGURE lines. `make bench` runs all and keeps the newest in docs/development/figures.txt."""
