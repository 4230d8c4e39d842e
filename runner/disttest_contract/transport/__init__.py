"""Transport of results out of a pod: log frames, progress lines, the termination message."""
