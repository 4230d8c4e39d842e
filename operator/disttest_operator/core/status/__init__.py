"""The status of a DistTest: conditions, attempts, events, progress, size limits."""
