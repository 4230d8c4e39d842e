"""The control plane: its processes, certificates, DNS and addresses."""
