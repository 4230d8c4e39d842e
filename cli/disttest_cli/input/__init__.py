"""Files that users write: manifests and lists."""
