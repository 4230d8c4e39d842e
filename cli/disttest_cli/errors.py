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
    USAGE = 2  # wrong usage, or refused by the API server
    DELETED = 40  # the run was deleted before its verdict
    GOES_ON = 41  # no verdict within the timeout; the run continues
    UNREACHABLE = 42  # the API server is not available: the only code that is worth a retry


def of_verdict(verdict: str) -> int:
    """Exit code of a verdict; an unknown one, of a newer operator, is not 0."""
    return EXIT_CODES[Verdict(verdict)] if verdict in set(Verdict) else ExitCode.CONFIGURATION


# For documentation: all exit codes of `disttest` but those of other signals.
MEANINGS: dict[int, str] = {
    ExitCode.PASSED: "done; of a run: passed",
    ExitStatus.USAGE: "the command, the file or the name is wrong, no API server is there, or it refuses",
    ExitCode.TESTS_FAILED: "tests failed, hung or took too long; of `compare`: something got worse",
    ExitCode.INFRASTRUCTURE: "the infrastructure did not let the run come to a result, or it was cancelled",
    ExitCode.CONFIGURATION: "the run could not be done as it is written",
    ExitStatus.DELETED: "the run was deleted before it had a verdict",
    ExitStatus.GOES_ON: "no verdict within the time; the run goes on",
    ExitStatus.UNREACHABLE: (
        "the API server has no time; of `apply`: it took nothing for two minutes. Worth trying again"
    ),
    INTERRUPTED: "ended by SIGINT (Ctrl-C); a run on a cluster goes on",
    PIPE_CLOSED: "who read the output has gone",
    SIGNALLED + 15: "ended by SIGTERM; a run on a cluster goes on",
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
            f"`disttest {command}` needs the Python package {package!r}, which is not here: "
            f"install disttest[{extra}], or use the image that has it"
        )
