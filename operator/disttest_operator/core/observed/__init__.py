"""Observations: decoding of objects, the views that are kept, earlier attempts, the evidence on one run."""
