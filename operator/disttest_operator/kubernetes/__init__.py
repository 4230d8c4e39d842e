"""The only home of the Kubernetes client: requests, watches, log streams and the Lease."""
