"""What the operator costs, and how it behaves under faults, on a real API server with stub nodes."""
