"""What the command line says when it cannot do what was asked."""

import sys

from disttest_cli.exits import Exit
from disttest_contract import harmless, limits

LINE_BYTES = 16 << 10  # an answer of the API server may quote a whole object


def warn(words: str) -> None:
    """One line on standard error: it may quote files, answers and arguments."""
    print(f"disttest: {limits.cut(harmless.line(words), LINE_BYTES)}", file=sys.stderr, flush=True)


class CommandError(Exception):
    """One line for the user, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The user must change the command, the file or the cluster's rules: to try again would end the same."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class NotInstalledError(UsageError):
    """A command whose extra of the distribution was not installed."""

    def __init__(self, command: str, package: str, extra: str) -> None:
        super().__init__(
            f"`disttest {command}` needs the Python package {package!r}, which is not here: "
            f"install disttest[{extra}], or use the image that has it"
        )
