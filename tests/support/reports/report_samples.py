"""Reports that formats must get right: each outcome once, what no case says, what is hostile, what is large."""

import dataclasses
import random
from typing import Any

from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import BAD, Outcome, Reason, Verdict
from disttest_contract.results.case_result import CaseResult, Diagnosis, Earlier, RankEnding, RankGroup
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import LeftOut, Report, SuiteResult
from disttest_contract.results.thresholds import Threshold
from tests.support.reports import report_cases
from tests.support.reports.report_cases import timed
from tests.support.reports.reports import STATUS, a_report, a_suite

FILE = "test/distributed/test_things.py"
SKIPPED = CaseResult(
    id=f"{FILE}::TestThings::test_skipped", outcome=Outcome.SKIPPED, seconds=0, message="needs 32 ranks"
)
XFAILED = CaseResult(id=f"{FILE}::test_xfailed", outcome=Outcome.XFAILED, seconds=0.2, message="issue 7")
XPASSED = CaseResult(id=f"{FILE}::test_xpassed", outcome=Outcome.XPASSED, seconds=0.2)
NOT_RUN = CaseResult(id=f"{FILE}::test_not_run", outcome=Outcome.NOT_RUN, seconds=0, message="the gang was lost")
INTERRUPTED = CaseResult(
    id=f"{FILE}::test_interrupted",
    outcome=Outcome.NOT_RUN,
    seconds=3.5,
    at=60.0,
    message="still running after 4 s when the run timed out; rank 1 is at wait (test_things.py:7)",
    stacks={1: 'Thread 0x01 (most recent call first):\n  File "test_things.py", line 7 in wait'},
    diagnosis=Diagnosis(summary="rank 1 is at wait (test_things.py:7)", states={1: "is at wait (test_things.py:7)"}),
)
PASSED = CaseResult(id=f"{FILE}::test_passed[a::b]", outcome=Outcome.PASSED, seconds=1.25)
MEASURED = next(case for case in report_cases.bandwidth_cases() if case.outcome is Outcome.FAILED)
EACH = (
    PASSED,
    SKIPPED,
    XFAILED,
    XPASSED,
    NOT_RUN,
    INTERRUPTED,
    report_cases.FAILED,
    report_cases.ERRORED,
    report_cases.CRASHED,
    report_cases.HUNG,
    report_cases.FLAKY,
    report_cases.QUARANTINED,
    MEASURED,
)
LEFT_OUT = LeftOut(
    by_outcome={Outcome.PASSED: 900, Outcome.FAILED: 40, Outcome.HUNG: 5}, excused={Outcome.FAILED: 3}, flaky=2
)
NASTY = (
    "a]]>b <script>alert(1)</script> & \"quotes\" 'too'",
    "\x1b[31mred\x1b[0m \x07 \x00 \x85 \x9b",
    "lone \ud800 surrogate, \ufffe and \uffff",
    "right-to-left \u202e override, zero\u200bwidth, line\u2028separator",
    "| pipes | `ticks` ```fences``` ~~~ # heading\n# heading\n- list",
    "@octocat #1 https://example.com/ www.example.com a@b.example [link](https://example.com) ![x](y) </details>",
    "\r\ncarriage\rreturn\ttab \n\n blank lines \n",
    "ünïcödé 日本語 🙂",
    "x" * 9000,
    "",
    "   ",
)


def each(**changes: Any) -> Report:
    """Every outcome."""
    return a_report(a_suite("things", timed(EACH, 21)), **changes)


def without_cases(name: str, verdict: Verdict, reason: Reason, message: str) -> SuiteResult:
    """A suite without results."""
    return SuiteResult(name=name, verdict=verdict, reason=reason, message=message, seconds=0, cases=())


def trimmed(left_out: LeftOut = LEFT_OUT) -> Report:
    """A suite of which most cases were left out."""
    suite = dataclasses.replace(a_suite("things", [PASSED, report_cases.FAILED]), left_out=left_out)
    return a_report(suite, trimmed="good cases; failed cases")


def lost() -> Report:
    """No case ran: the gang was lost."""
    suite = without_cases("things", Verdict.INFRA_FAILED, Reason.GANG_LOST, "not started: node-b")
    return a_report(
        suite, verdict=Verdict.INFRA_FAILED, reason=Reason.GANG_LOST, message="the agent on node-b\nwent away"
    )


def nothing(**changes: Any) -> Report:
    """Neither suites nor cases, neither nodes nor times."""
    empty: dict[str, Any] = {
        "node_names": (),
        "versions": {},
        "preflight": (),
        "thresholds": (),
        "series": "",
        "message": "",
        "started": 0.0,
        "joined": None,
        "first_case": None,
        "last_case": None,
        "finished": 0.0,
    }
    return a_report(**empty | changes)


def hostile() -> Report:
    """Texts that no reader should trip over, wherever a report has texts."""
    cases = [_hostile_case(text, number, outcome) for number, text in enumerate(NASTY) for outcome in Outcome]
    suites = [dataclasses.replace(a_suite("s", cases), name=text, message=text) for text in NASTY]
    text = " ".join(NASTY)
    facts = NodeFacts(node_name=text, gpus=(text,), driver=text, cuda_error=text, kernel=text, versions={text: text})
    return a_report(
        *suites,
        namespace=text,
        name=text,
        uid=text,
        series=text,
        backend=text,
        message=text,
        trimmed=text,
        node_names=(text, text),
        versions={text: text, "torch": text},
        settings={text: text},
        preflight=(facts, dataclasses.replace(facts, driver="other")),
    )


def _hostile_case(text: str, number: int, outcome: Outcome) -> CaseResult:
    ranks = (0, 1)
    measured = dataclasses.replace(MEASURED.measurements[0], collective=text, dtype=text)
    return CaseResult(
        id=f"{text}::{number}::{outcome.value}",
        outcome=outcome,
        seconds=float("nan") if number % 2 else float("inf"),
        at=-1e300,
        message=text,
        ranks=ranks,
        nodes=(text,),
        by_rank=(RankGroup(ranks=ranks, ending=RankEnding.FAILED, message=text),),
        signal=text,
        stacks={0: text},
        diagnosis=Diagnosis(summary=text, states={0: text}, native={1: text}, ras=text, artifacts=text),
        earlier=(Earlier(outcome=Outcome.FAILED, seconds=-1, message=text, ranks=ranks, nodes=(text,)),),
        measurements=(measured,),
    )


def failures(count: int, message: str = "E   AssertionError: `a` | <b>\n" * 40) -> Report:
    """So many failed cases."""
    cases = [
        dataclasses.replace(report_cases.FAILED, id=f"{FILE}::test_{number}", message=message)
        for number in range(count)
    ]
    return a_report(a_suite("things", timed(cases, 21)))


def subject(report: Report) -> Subject:
    return Subject(report=report, status=STATUS)


def generated(seed: int) -> Report:
    """Any report that writers could write."""
    dice = random.Random(seed)  # noqa: S311  # the same each time
    suites = [
        a_suite(f"suite-{place}", [_generated_case(dice, number) for number in range(dice.randrange(1, 12))])
        for place in range(dice.randrange(5))
    ]
    times = sorted(dice.uniform(1.7e9, 1.8e9) for _ in range(3))
    return a_report(
        *suites,
        attempt=dice.randrange(1, 4),
        verdict=dice.choice(list(Verdict)),
        reason=dice.choice(list(Reason)),
        message=dice.choice(NASTY),
        joined=dice.choice([None, times[0]]),
        first_case=dice.choice([None, times[1]]),
        last_case=dice.choice([None, times[2]]),
        at_fault=tuple(range(dice.randrange(3))),
        series=dice.choice(["", "nightly"]),
        trimmed=dice.choice(["", "stacks"]),
        thresholds=tuple(_threshold(dice) for _ in range(dice.randrange(3))),
        preflight=tuple(NodeFacts(node_name=f"node-{place}") for place in range(dice.randrange(3))),
    )


def _threshold(dice: random.Random) -> Threshold:
    return Threshold(
        collective=dice.choice(["all_reduce", "broadcast"]),
        size_bytes=1 << dice.randrange(40),
        min_bus_bandwidth_bytes_per_second=dice.randrange(1, 10**12),
        dtype=dice.choice(["", "float32"]),
    )


def _generated_case(dice: random.Random, number: int) -> CaseResult:
    """One of the known ones, with an outcome and details of chance."""
    outcome = dice.choice(list(Outcome))
    changed = dataclasses.replace(
        dice.choice(EACH),
        id=f"{FILE}::test_{number}",
        outcome=outcome,
        seconds=dice.random() * 10 ** dice.randrange(-3, 4),
        message=dice.choice(NASTY),
        exit_code=dice.choice([None, 0, 137]),
        quarantined=dice.random() < 0.1,
    )
    return changed if outcome in BAD else dataclasses.replace(changed, stacks={}, diagnosis=None)
