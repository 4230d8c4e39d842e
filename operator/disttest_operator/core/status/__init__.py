"""The status of a DistTest: conditions, events, progress, size limits."""
