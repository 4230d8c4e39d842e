"""What is said: progress, differences, verdicts, the cut report."""

import dataclasses
import random

import pytest

from disttest_contract.gang.plan import RunPlan, SuitePlan
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Earlier, Report, SuiteResult
from disttest_contract.transport import frames
from disttest_runner.cases import collection, rank_orders
from disttest_runner.leader import progress_log
from disttest_runner.output import log
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results import verdicts

GOOD = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.1)
MESSAGE = "rank 1 on n:\n" + "\n".join("abcdefghij")
BAD = CaseResult(id="t.py::test_b", outcome=Outcome.FAILED, seconds=2, message=MESSAGE)


@pytest.mark.parametrize(
    ("ids", "others", "expected"),
    [
        (("a", "b"), ("a", "c"), "without b; with c"),
        (("a", "b"), ("a",), "without b"),
        (("a",), ("a", "b"), "with b"),
        (("a", "b", "c"), ("a", "c", "b"), "the same cases in a different order, starting at number 2"),
        (tuple("abcdefgh"), (), "without a, b, c, d, e and 3 more"),
        (("a", "a"), ("a",), "the same cases in a different order, starting at number 2"),
    ],
)
def test_a_difference_is_named(ids: tuple[str, ...], others: tuple[str, ...], expected: str) -> None:
    assert collection.difference(ids, others) == expected


def test_a_passed_case_is_one_line() -> None:
    assert progress_log.case_line("s", 7, 120, GOOD) == "[  7/120] passed     0.10 s  s: t.py::test_a"


def test_a_failure_shows_who_and_the_end_of_what() -> None:
    lines = progress_log.case_line("s", 1, 2, BAD).splitlines()
    assert lines[1:] == ["      rank 1 on n:", "      …", "      g", "      h", "      i", "      j"]


def test_a_case_that_did_not_run_says_why_on_its_line() -> None:
    skipped = dataclasses.replace(GOOD, outcome=Outcome.SKIPPED, message="needs two GPUs")
    assert progress_log.case_line("s", 1, 2, skipped).endswith("(needs two GPUs)")


def suite(name: str, *cases: CaseResult) -> SuiteResult:
    return verdicts.finished(SuitePlan(name=name), seconds=1, cases=cases)


STOP = RunEnd(Verdict.INFRA_FAILED, Reason.GANG_LOST, "an agent was lost")


@pytest.mark.parametrize(
    ("suites", "stop", "verdict", "reason"),
    [
        ((suite("a", GOOD), suite("b", GOOD)), None, Verdict.PASSED, Reason.ALL_CASES_PASSED),
        ((suite("a", GOOD), suite("b", BAD)), None, Verdict.TESTS_FAILED, Reason.CASES_FAILED),
        (
            (suite("a", BAD), verdicts.broken("b", Reason.COLLECTION_FAILED, "x", seconds=0, cases=())),
            None,
            Verdict.ERRORED,
            Reason.COLLECTION_FAILED,
        ),
        ((suite("a", BAD), verdicts.unstarted("b", STOP)), STOP, Verdict.INFRA_FAILED, Reason.GANG_LOST),
        ((), None, Verdict.ERRORED, Reason.NO_CASES_COLLECTED),
        ((suite("a", GOOD),), STOP, Verdict.INFRA_FAILED, Reason.GANG_LOST),
    ],
)
def test_the_worst_speaks_for_the_run(
    suites: tuple[SuiteResult, ...], stop: RunEnd | None, verdict: Verdict, reason: Reason
) -> None:
    final = verdicts.of_run(suites, stop)
    assert (final.verdict, final.reason) == (verdict, reason)


def test_a_suite_says_what_came_of_it() -> None:
    assert suite("a", GOOD).message == "1 of 1 cases passed"
    assert suite("a", GOOD, BAD).message == "1 of 2 cases failed; first t.py::test_b: rank 1 on n: j"
    skipped = dataclasses.replace(GOOD, outcome=Outcome.SKIPPED, message="later")
    assert suite("a", skipped).message == "none of 1 cases passed; the first was skipped: later"


@pytest.mark.parametrize(
    ("names", "message"), [("a", "1 of 1 cases passed in 1 suite"), ("ab", "2 of 2 cases passed in 2 suites")]
)
def test_a_run_that_passed_counts_its_suites(names: str, message: str) -> None:
    assert verdicts.of_run([suite(name, GOOD) for name in names], None).message == message


def noise(seed: int, count: int) -> str:
    """What does not compress to nothing."""
    return random.Random(seed).randbytes(count // 2).hex()  # noqa: S311 - any bytes will do


def report_of(cases: int, stack_characters: int, message_characters: int) -> Report:
    made = tuple(
        CaseResult(
            id=f"case-{number}",
            outcome=Outcome.HUNG,
            seconds=1,
            message=noise(number, message_characters),
            stacks={0: noise(-number - 1, stack_characters)},
        )
        for number in range(cases)
    )
    return Report(
        namespace="n",
        name="x",
        uid="u",
        attempt=1,
        backend="gloo",
        nodes=1,
        ranks_per_node=1,
        node_names=("n",),
        versions={},
        verdict=Verdict.HUNG,
        reason=Reason.CASES_HUNG,
        message="hung",
        started=0,
        joined=1,
        first_case=2,
        last_case=3,
        finished=4,
        generations=1,
        suites=(suite("s", *made),),
    )


def test_a_report_that_fits_is_whole() -> None:
    report = report_of(3, 1000, 600)
    framed = log.frame_report(report, "nonce", 1 << 20)
    lines, digest = framed.lines, framed.sha256
    assert Report.loads(frames.decode("\n".join(lines), "nonce")) == report
    assert len(digest) == 64


@pytest.mark.parametrize(("limit", "left"), [(70_000, 512), (18_000, 160), (4_000, 160)])
def test_a_report_that_does_not_fit_loses_stacks_then_words_then_cases_and_says_so(limit: int, left: int) -> None:
    framed = log.frame_report(report_of(100, 1000, 600), "nonce", limit)
    read = Report.loads(frames.decode("\n".join(framed.lines), "nonce"))
    assert sum(len(line) + 1 for line in framed.lines) <= limit
    assert framed.trimmed == read.trimmed != ""
    kept = [case.id for case in read.suites[0].cases]
    assert kept == [f"case-{number}" for number in range(100)][: len(kept)]
    assert (len(kept) == 100) is (limit > 4_000)
    assert kept
    assert (read.counts.total, read.counts[Outcome.HUNG]) == (100, 100)
    assert not any(case.stacks for case in read.suites[0].cases)
    assert max(len(case.message.encode()) for case in read.suites[0].cases) <= left


def test_the_shortest_report_still_knows_flaky_cases_and_tells_long_ids_apart() -> None:
    report = report_of(2, 10, 10)
    tried = Earlier(outcome=Outcome.FAILED, seconds=1, message=noise(1, 2000))
    cases = [
        dataclasses.replace(case, id=noise(7, 5000) + str(number), outcome=Outcome.PASSED, earlier=(tried,))
        for number, case in enumerate(report.suites[0].cases)
    ]
    lines = log.frame_report(dataclasses.replace(report, suites=(suite("s", *cases),)), "nonce", 2600).lines
    read = Report.loads(frames.decode("\n".join(lines), "nonce"))
    assert read.counts.flaky == 2
    assert len({case.id for case in read.suites[0].cases}) == 2
    assert all(len(case.id) < 600 for case in read.suites[0].cases)


def test_a_suite_of_the_user_changes_what_a_builtin_suite_sets() -> None:
    suite = SuitePlan(name="spawn", builtin="c10d-spawn", env=(("BACKEND", "nccl"), ("X", "1")))
    plan = RunPlan(
        namespace="n",
        name="x",
        uid="u",
        series="",
        attempt=1,
        nodes=1,
        ranks_per_node=1,
        backend="gloo",
        spread=True,
        suites=(suite,),
        rendezvous_seconds=1,
        case_seconds=1,
        run_seconds=1,
    )
    found = rank_orders.environment(plan, suite)
    assert (found["BACKEND"], found["WORLD_SIZE"], found["X"]) == ("nccl", "1", "1")
    assert rank_orders.environment(plan, SuitePlan(name="c", builtin="collectives")) == {}
