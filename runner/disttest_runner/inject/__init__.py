"""Runs the runner in an image that has only torch."""
