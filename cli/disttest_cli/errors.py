"""What the command line says when it cannot do what was asked."""


class UsageError(Exception):
    """One line for the user, exit code 2."""
