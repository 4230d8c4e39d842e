"""The objects from the watches, parsed once."""
