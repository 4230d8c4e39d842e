"""Is a cluster ready for DistTests: one check for each thing that can be missing."""
