"""What the container writes: its log and its termination message."""
