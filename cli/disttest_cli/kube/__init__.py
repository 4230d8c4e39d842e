"""What asks a cluster: its API server, and what commands want of it."""
