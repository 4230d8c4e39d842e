"""Makes what is generated below manifests/monitoring: `python -m monitoring`."""
