"""One row of the table of faults: what happens, and what must come of it; and the run that shows some of them."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from disttest_contract.results.report import CaseResult, Report, SuiteResult


class After(StrEnum):
    """What becomes of the rest of the run."""

    NEXT_CASE = "the next case passes"
    NEXT_SUITE = "the next suite runs"
    ENDS = "the attempt ends; completed results are kept"  # no pod comes back within an attempt
    GOES_ON = "no result is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`outcome` is that of a case, or verdict and reason of a suite or run; `ranks` are the expected ranks at fault.

    `source` is the case of that name, where the fault is one. `words` are parts of the message.
    """

    name: str
    outcome: str
    ranks: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    limit_seconds: float
    after: After
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """What did come of it. `seconds` are those from the fault until the runner had reported it.

    `slower`: how many times slower than usual the machine was, at the start or the end of the run.
    """

    outcome: str
    ranks: tuple[int, ...] = ()
    message: str = ""
    seconds: float
    after: After | str  # or what happened in its place
    log: str = ""
    slower: float = 1.0


def nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`show` runs it in a separate folder and returns the results by the names of faults.

    `lacks` returns what this machine lacks for it.
    """

    title: str
    faults: tuple[Fault, ...]
    show: Callable[[Path], dict[str, FaultResult]]
    lacks: Callable[[], str] = nothing


def problems(fault: Fault, found: FaultResult) -> list[str]:
    """In which ways the outcome is not the expected one."""
    wrong = [
        f"{what} is {is_!r}, expected {expected!r}"
        for what, is_, expected in (
            ("the outcome", found.outcome, fault.outcome),
            ("the blamed ranks", found.ranks, fault.ranks),
            ("what follows", str(found.after), str(fault.after)),
        )
        if is_ != expected
    ]
    wrong += [f"the message lacks {words!r}" for words in fault.words if words not in found.message]
    if found.seconds > found.slower * fault.limit_seconds:
        wrong.append(f"it took {found.seconds:.1f} s, expected at most {fault.limit_seconds:g}")
    return wrong


def of_case(result: CaseResult, following: CaseResult | None) -> FaultResult:
    after: After | str = After.NEXT_CASE
    if following is None or following.outcome != "passed":
        after = f"the next case is {following.outcome if following else 'missing'}: {following and following.message}"
    return FaultResult(
        outcome=result.outcome.value,
        ranks=result.ranks,
        message=result.message,
        seconds=result.seconds,
        after=after,
    )


def word(result: SuiteResult | Report) -> str:
    return f"{result.verdict} {result.reason}"
