"""The lines that people read while a run goes on. Pure."""

from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.report import CaseResult, SuiteResult

MESSAGE_LINES = 6  # of a failure's end


def is_bad(result: CaseResult) -> bool:
    return result.outcome in BAD


def case_line(suite: str, number: int, total: int, result: CaseResult) -> str:
    width = len(str(total))
    head = f"[{number:>{width}}/{total}] {result.outcome:<7} {result.seconds:7.2f} s  {suite}: {result.id}"
    if result.earlier:
        head = f"{head}  (try {len(result.earlier) + 1}: {result.earlier[-1].outcome} before)"
    if result.is_excused:
        head = f"{head}  (in quarantine)"
    if is_bad(result):
        return "\n".join([head, *(f"      {line}" for line in last_lines(result.message))])
    if result.outcome in (Outcome.SKIPPED, Outcome.NOT_RUN, Outcome.XFAILED, Outcome.XPASSED) and result.message:
        return f"{head}  ({last_lines(result.message, 1)[0]})"
    return head


def suite_line(result: SuiteResult) -> str:
    head = f"suite {result.name}: {result.verdict} after {result.seconds:.1f} s"
    if result.verdict is Verdict.PASSED:
        return f"{head}, {result.message}"
    return "\n".join([f"{head} ({result.reason})", *(f"      {line}" for line in last_lines(result.message))])


def last_lines(message: str, count: int = MESSAGE_LINES) -> list[str]:
    """The first line says who, the last ones what."""
    lines = [line for line in message.splitlines() if line.strip()] or [""]
    return (
        lines if len(lines) <= count else [lines[0], "…", *lines[len(lines) - count + 2 :]] if count > 1 else lines[:1]
    )
