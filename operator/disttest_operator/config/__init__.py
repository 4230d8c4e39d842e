"""Flags, environment variables and the format of the log."""
