"""Exit codes of the command line, and errors that end a command with one line and such a code."""

import sys
from enum import IntEnum

from disttest_contract import limits
from disttest_contract.outcomes import EXIT_CODES, ExitCode, Verdict
from disttest_contract.text import escaping

SIGNALLED = 128  # plus the number of the signal, as in shells
INTERRUPTED = SIGNALLED + 2  # SIGINT
PIPE_CLOSED = SIGNALLED + 13  # SIGPIPE


class ExitStatus(IntEnum):
    USAGE = 2  # wrong usage, or rejected by the API server
    DELETED = 40  # the run was deleted before its verdict
    CONTINUES = 41  # no verdict within the timeout; the run continues
    UNREACHABLE = 42  # the API server is not available: the only code for which a retry can help


def of_verdict(verdict: str) -> int:
    """Exit code of a verdict; an unknown one, of a newer operator, is not 0."""
    return EXIT_CODES[Verdict(verdict)] if verdict in set(Verdict) else ExitCode.CONFIGURATION


# For documentation: all exit codes of `disttest` except those of other signals.
MEANINGS: dict[int, str] = {
    ExitCode.PASSED: "success; for a run: passed",
    ExitStatus.USAGE: ("usage error: wrong option, file or name, missing permission, or no API server at the address"),
    ExitCode.TESTS_FAILED: "tests failed, hung or timed out; for `compare`: something got worse",
    ExitCode.INFRASTRUCTURE: "infrastructure failure, or the run was cancelled",
    ExitCode.CONFIGURATION: "configuration error: the run is not possible as written; for `doctor`: problem found",
    ExitStatus.DELETED: "the run was deleted before its verdict",
    ExitStatus.CONTINUES: "no verdict within `--timeout`; the run continues",
    ExitStatus.UNREACHABLE: "the API server is busy (`apply` retries for 2 minutes); retry later",
    INTERRUPTED: "interrupted by SIGINT (Ctrl-C); a run on a cluster continues",
    PIPE_CLOSED: "the reader of the output closed the pipe",
    SIGNALLED + 15: "terminated by SIGTERM; a run on a cluster continues",
}


LINE_BYTES = 16 << 10  # a response of the API server may quote a whole object


def warn(words: str) -> None:
    print(f"disttest: {limits.cut(escaping.line(words), LINE_BYTES)}", file=sys.stderr, flush=True)


class CommandError(Exception):
    """Ends the command with one line and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The user must change the command, the file or the cluster; a retry cannot succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitStatus.USAGE)


class NotInstalledError(UsageError):
    def __init__(self, command: str, package: str, extra: str) -> None:
        super().__init__(
            f"`disttest {command}` needs the Python package {package!r}, which is not installed. "
            f"Install disttest[{extra}], or use an image that contains it."
        )
