"""Is a cluster ready for DistTests: one module for each kind of thing that can be missing."""
