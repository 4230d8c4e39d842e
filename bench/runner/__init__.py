"""What the runner costs and how it scales."""
