"""Linux: process groups, process states, resource limits."""
