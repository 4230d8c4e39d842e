"""How results leave a pod: log frames, progress lines, the termination message."""
