"""What the command line says when it cannot do what was asked."""

from disttest_cli.exits import Exit


class CommandError(Exception):
    """One line for the user, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The user must change the command, the file or the cluster's rules: to try again would end the same."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)
