"""What the operator costs and what it survives, on a real API server with stub nodes."""
