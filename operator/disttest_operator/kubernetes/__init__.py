"""The Kubernetes client: requests, watches, log streams and the Lease. No other package uses it."""
