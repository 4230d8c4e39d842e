"""Requests to a cluster: the client, and the objects and logs that commands read."""
