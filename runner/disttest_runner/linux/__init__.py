"""What the kernel offers: process groups, process states, resource limits."""
