"""What the watches have delivered, parsed once."""
