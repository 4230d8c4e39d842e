"""Real nodes: containerd, runc and the kubelet, for what process nodes do not show."""
