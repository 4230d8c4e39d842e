"""Exit codes of an agent, hence of its container. Others were not the runner's choice: a signal, a crash, the shell."""

from enum import IntEnum

from disttest_contract.outcomes import Verdict


class ExitCode(IntEnum):
    PASSED = 0
    TESTS_FAILED = 10  # a result was obtained, and it is red
    INFRASTRUCTURE = 20  # worth another attempt
    CONFIGURATION = 30  # another attempt would end the same


EXIT_CODES = {
    Verdict.PASSED: ExitCode.PASSED,
    Verdict.TESTS_FAILED: ExitCode.TESTS_FAILED,
    Verdict.HUNG: ExitCode.TESTS_FAILED,
    Verdict.TIMED_OUT: ExitCode.TESTS_FAILED,
    Verdict.INFRA_FAILED: ExitCode.INFRASTRUCTURE,
    Verdict.CANCELLED: ExitCode.INFRASTRUCTURE,
    Verdict.ERRORED: ExitCode.CONFIGURATION,
}
