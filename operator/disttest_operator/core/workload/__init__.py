"""What the operator creates for an attempt: Job, Service, pods, run plan."""
