"""A real Kubernetes on one Linux machine, without Docker and without root: control plane, process nodes, DNS."""
