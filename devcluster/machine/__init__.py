"""The local machine: cache, processes, namespaces, settings of a cluster."""
