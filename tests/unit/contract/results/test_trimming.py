"""What is left out of a report that is too large: in which order, what it still comes to, and that it always fits."""

import dataclasses
import itertools
import json
import random
from collections.abc import Callable

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.results import trimming
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import (
    CaseResult,
    InvalidReportError,
    LeftOut,
    RankEnding,
    RankGroup,
    Report,
    SuiteResult,
    judge_suites,
)
from disttest_contract.transport import frames
from disttest_contract.transport.frames import GZIP, squeeze
from disttest_contract.transport.termination_message import Summary
from disttest_runner.leader.memory_budget import DETAIL_BYTES, MemoryBudget
from disttest_runner.output import log
from disttest_runner.output.log import REPORT_BYTES
from tests.support.builders.measured import a_measured_case, a_measurement
from tests.support.builders.runs import a_flaky_case, a_report

WORDS = [words for words, _ in trimming.RULES]
GENERATOR = random.Random(3)  # noqa: S311  # text that does not shrink, the same each time


def noise(length: int) -> str:
    return GENERATOR.randbytes(length * 3 // 4 + 1).hex()[:length]


def failed(number: int, **more: object) -> CaseResult:
    usual: dict[str, object] = {
        "id": f"test_x.py::test_{number}",
        "outcome": Outcome.FAILED,
        "seconds": 0.5,
        "message": noise(1000),
        "ranks": tuple(range(0, 64, 2)),
        "nodes": tuple(f"node-{index}" for index in range(16)),
        "by_rank": (RankGroup(ranks=tuple(range(0, 64, 2)), ending=RankEnding.FAILED, message=noise(800)),),
        "stacks": {0: noise(3000)},
        "diagnosis": Diagnosis(summary="rank 0 waits", native={0: noise(2000)}),
    }
    return CaseResult(**usual | more)  # type: ignore[arg-type]  # fields of several types


def mixed() -> Report:
    """Some of all: failed, in quarantine, flaky, measured, skipped with a reason, passed."""
    cases = (
        *(failed(number) for number in range(30)),
        *(failed(number, quarantined=True, outcome=Outcome.HUNG) for number in range(30, 35)),
        a_flaky_case(),
        a_measured_case(a_measurement()),
        *(CaseResult(id=f"s::{n}", outcome=Outcome.SKIPPED, seconds=0, message=noise(900)) for n in range(30)),
        *(CaseResult(id=f"p::{noise(30)}", outcome=Outcome.PASSED, seconds=float(n), at=n * 1.5) for n in range(200)),
    )
    suite = SuiteResult(name="mine", verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, seconds=9, cases=cases)
    return a_report(suites=(suite,), verdict=Verdict.TESTS_FAILED, reason=suite.reason)


def fit(report: Report, limit_bytes: int) -> tuple[Report, str]:
    raw, packed, trimmed = trimming.fit(report.to_json(), lambda raw: squeeze(raw, limit_bytes, form=GZIP))
    assert len(packed) <= limit_bytes
    return Report.loads(raw), trimmed


def test_a_report_that_fits_is_whole() -> None:
    report = mixed()
    assert fit(report, 1 << 20) == (report, "")


def test_rules_are_applied_in_order_and_each_is_said() -> None:
    report, seen = mixed(), [""]
    limit = len(trimming.dumps(report.to_json()))
    while limit > 1500:
        read, trimmed = fit(report, limit)
        assert read.trimmed == trimmed
        assert read.counts == report.counts
        assert judge_suites(read.suites) == judge_suites(report.suites)
        if trimmed != seen[-1]:
            seen.append(trimmed)
        limit = limit * 4 // 5
    parts = [said.split("; ") for said in seen[1:]]
    assert all(shorter[: len(longer) - 1] == longer[:-1] for longer, shorter in itertools.pairwise(parts))
    assert parts[-1][:-1] == [words for words in WORDS if "measurements" not in words]
    assert parts[-1][-1].startswith("all but ")


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.TESTS_FAILED])
def test_counts_and_verdict_are_what_they_were_however_little_is_left(verdict: Verdict) -> None:
    good = [CaseResult(id=noise(200), outcome=Outcome.PASSED, seconds=1) for _ in range(300)]
    bad = [failed(number, quarantined=verdict is Verdict.PASSED) for number in range(300)]
    reason = Reason.ALL_CASES_PASSED if verdict is Verdict.PASSED else Reason.CASES_FAILED
    suite = SuiteResult(name="mine", verdict=verdict, reason=reason, seconds=9, cases=(*good, *bad))
    report = a_report(suites=(suite,), verdict=verdict, reason=reason)
    read, trimmed = fit(report, 1500)
    assert 0 < len(read.suites[0].cases) < 300
    assert all(case.outcome is Outcome.FAILED for case in read.suites[0].cases)
    assert f"all but {len(read.suites[0].cases)} cases" in trimmed
    assert read.counts == report.counts
    assert judge_suites(read.suites)[0] is verdict
    again, _ = fit(read, 1200)
    assert again.counts == report.counts, "what is cut twice is counted once"


def test_the_interrupted_case_stays_with_its_message_when_good_cases_go() -> None:
    cut = CaseResult(
        id="t.py::cut", outcome=Outcome.NOT_RUN, seconds=2, at=1.0, message="still running", stacks={1: "x"}
    )
    never = CaseResult(id="t.py::never", outcome=Outcome.NOT_RUN, seconds=0, message="the run ended")
    report = a_report()
    suite = dataclasses.replace(report.suites[0], cases=(*report.suites[0].cases, cut, never))
    data = dataclasses.replace(report, suites=(suite,)).to_json()
    for _, rule in trimming.RULES:
        rule(data)
    [kept] = data["suites"][0]["cases"]
    assert (kept["id"], kept["message"]) == ("t.py::cut", "still running")
    assert data["suites"][0]["leftOut"]["counts"] == {"passed": 2, "notRun": 1}


def test_only_a_report_that_says_so_may_count_cases_that_are_not_in_it() -> None:
    suite = dataclasses.replace(a_report().suites[0], left_out=LeftOut(by_outcome={Outcome.PASSED: 5}))
    report = a_report(suites=(suite,))
    with pytest.raises(InvalidReportError, match="is not marked as trimmed"):
        Report.loads(report.dumps())
    marked = dataclasses.replace(report, trimmed="cases that did not fail")
    assert Report.loads(marked.dumps()) == marked
    assert marked.counts.total == a_report().counts.total + 5


@pytest.mark.parametrize(
    "left_out",
    [
        {"counts": {"failed": -1}},
        {"counts": {"failed": 1.5}},
        {"counts": {"failed": True}},
        {"counts": {"failed": 10**9}},
        {"counts": {"bored": 1}},
        {"counts": []},
        {"counts": {"failed": 1}, "quarantined": {"failed": 2}},
        {"counts": {"passed": 1}, "quarantined": {"passed": 1}},
        {"counts": {"failed": 1}, "flaky": 1},
        7,
    ],
    ids=str,
)
def test_counts_that_no_cases_can_have_are_refused(left_out: object) -> None:
    data = json.loads(dataclasses.replace(a_report(), trimmed="cases").dumps())
    data["suites"][0]["leftOut"] = left_out
    with pytest.raises(InvalidReportError):
        Report.loads(json.dumps(data).encode())


def test_of_measurements_those_stay_by_which_thresholds_are_judged() -> None:
    slow = dataclasses.replace(a_measurement(), bus_bandwidth_bytes_per_second=1.0)
    cases = [a_measured_case(a_measurement(), slow) for _ in range(400)]
    suite = dataclasses.replace(a_report().suites[0], cases=tuple(cases))
    read, trimmed = fit(a_report(suites=(suite,)), 1000)
    assert [one for case in read.suites[0].cases for one in case.measurements] == [slow]
    assert "measurements except for the slowest" in trimmed


def forge(change: Callable[[dict[str, object]], None]) -> Report:
    data = a_report().to_json()
    change(data)
    return Report.loads(json.dumps(data).encode())


HUGE = noise(3_000_000)
FORGED: dict[str, Callable[[dict[str, object]], None]] = {
    "names of nodes": lambda data: data["world"].update(nodeNames=[HUGE, *map(str, range(100_000))]),  # type: ignore[attr-defined]  # JSON
    "versions": lambda data: data.update(versions={HUGE: HUGE, **{noise(40): noise(40) for _ in range(20_000)}}),
    "name of a suite": lambda data: data["suites"][0].update(name=HUGE),  # type: ignore[index]  # JSON
    "many suites": lambda data: data.update(suites=data["suites"] * 2_000),  # type: ignore[operator]  # JSON
    "preflight": lambda data: data.update(preflight=[{"cudaError": HUGE}]),
    "words of trimming": lambda data: data.update(trimmed=HUGE),
    "at fault": lambda data: data.update(atFault=list(range(10**6, 10**6 + 400_000))),
    "name of a run": lambda data: data["run"].update(series=HUGE),  # type: ignore[attr-defined]  # JSON
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_whatever_was_forged_fits_in_the_end(change: Callable[[dict[str, object]], None]) -> None:
    fit(forge(change), limits.CONFIG_MAP_REPORT_BYTES)


def hanging(number: int, texts: list[str], ranks: int = 512, stacks: int = 64) -> CaseResult:
    """As the leader makes it where 512 ranks all say something else, and megabytes of it."""
    groups = tuple(
        RankGroup(ranks=(rank,), ending=RankEnding.FAILED, message=texts[(number + rank) % len(texts)][:2048])
        for rank in range(limits.RANK_GROUPS - 1)
    )
    rest = RankGroup(ranks=tuple(range(limits.RANK_GROUPS - 1, ranks)), ending=RankEnding.FAILED)
    return CaseResult(
        id=f"test_x.py::test_{number}[{texts[number % len(texts)][:40]}]",
        outcome=Outcome.HUNG,
        seconds=number / 7,
        at=number * 1.5,
        message=texts[number % len(texts)],
        ranks=tuple(range(ranks)),
        nodes=tuple(f"node-{index}" for index in range(64)),
        by_rank=(*groups, rest),
        stacks={rank: texts[(number * 7 + rank) % len(texts)] * 2 for rank in range(stacks)},
    )


@pytest.mark.parametrize("cases", [600, pytest.param(20_000, marks=pytest.mark.soak)])
def test_thousands_of_cases_that_hang_on_512_ranks_fit_everywhere(cases: int) -> None:
    texts = [noise(4096) for _ in range(500)]
    budget = MemoryBudget()
    made = tuple(budget.fit(hanging(number, texts)) for number in range(cases))
    suite = SuiteResult(name="mine", verdict=Verdict.HUNG, reason=Reason.CASES_HUNG, seconds=9, cases=made)
    names = tuple(f"a-node-with-a-name-{index}" for index in range(512))
    report = a_report(
        suites=(suite,), verdict=Verdict.HUNG, reason=suite.reason, node_names=names, trimmed=budget.trimmed
    )
    assert len(report.dumps()) < DETAIL_BYTES + cases * 1200, "what the leader holds is bounded"
    framed = log.frame_report(report, "nonce", REPORT_BYTES)
    assert sum(len(line) + 1 for line in framed.lines) <= REPORT_BYTES
    sent = Report.loads(frames.decode("\n".join(framed.lines), "nonce"))
    stored, trimmed = fit(sent, limits.CONFIG_MAP_REPORT_BYTES)
    assert sent.counts == stored.counts == Counts(by_outcome={Outcome.HUNG: cases})
    assert judge_suites(stored.suites) == (Verdict.HUNG, Reason.CASES_HUNG)
    assert budget.trimmed in trimmed


def test_a_termination_message_fits_whatever_is_in_it() -> None:
    counts = Counts(by_outcome=dict.fromkeys(Outcome, 10**9), flaky=10**9, quarantined=10**9)
    message = Summary(
        uid="u" * 36,
        attempt=10**6,
        node_index=511,
        step="finished",
        verdict=Verdict.TESTS_FAILED,
        reason=Reason.GANG_FAILED_TO_START,
        message="\x00" * 100_000,
        current=HUGE,
        first_failure="\u20ac" * 100_000,
        counts=counts,
        cases_total=10**9,
        report_sha256="f" * 64,
    ).to_bytes()
    assert len(message) <= limits.TERMINATION_MESSAGE_BYTES
    assert Summary.read(message.decode()) is not None
