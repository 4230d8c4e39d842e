"""Text and numbers of foreign origin: escaping, size limits, formatting."""
