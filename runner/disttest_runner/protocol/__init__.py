"""JSON lines between the processes of a gang, joining, and heartbeats."""
