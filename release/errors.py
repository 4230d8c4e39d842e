class ReleaseError(Exception):
    """What is wrong, with what, and what to do about it; on one line."""
