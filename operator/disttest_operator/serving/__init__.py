"""HTTPS servers of /metrics and /healthz: certificates, authentication, connection limits."""
