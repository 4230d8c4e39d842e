"""Images without Docker: buildah and a registry's storage, all of it in the cache and in separate namespaces."""
