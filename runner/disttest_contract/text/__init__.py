"""Text and numbers: escaping, limits of size, formatting."""
