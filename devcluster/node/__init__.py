"""A Kubernetes node whose containers are local processes."""
