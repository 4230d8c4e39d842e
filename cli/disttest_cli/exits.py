"""Exit codes of `disttest` that are no verdict. Those of verdicts are an agent's: one table for both."""

from enum import IntEnum

from disttest_contract.exits import EXIT_CODES, ExitCode
from disttest_contract.outcomes import Verdict

SIGNALLED = 128  # and the number of the signal, as shells have it
INTERRUPTED = SIGNALLED + 2  # SIGINT
PIPE_CLOSED = SIGNALLED + 13  # SIGPIPE: who read the output has gone


class Exit(IntEnum):
    USAGE = 2  # as argparse has it; also what the API server refuses
    DELETED = 40  # the run was deleted before its verdict
    GOES_ON = 41  # no verdict within the time; the run goes on
    UNREACHABLE = 42  # the API server took nothing: the only one that is worth trying again


def of_verdict(verdict: str) -> int:
    """A verdict that only a newer operator knows is not green."""
    return EXIT_CODES[Verdict(verdict)] if verdict in set(Verdict) else ExitCode.CONFIGURATION
