"""What a run tells its ledger beyond its terminal status: how each case went, what was measured, on which nodes.

A report is written next to the code under test, which can forge it: names are cut and made harmless here.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.results.thresholds import Threshold, ThresholdIndex
from disttest_contract.text import escaping, formatting
from disttest_operator.core.observed.evidence import Evidence, ReportFound
from disttest_operator.core.status import attempt_record

POINTS = 64  # of a run: collective, type and size
WORD = re.compile(r"[a-z0-9_]{1,32}")
VERSION = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._+]{0,39}")
PRODUCT = re.compile(r"[A-Za-z0-9][-A-Za-z0-9 ._()/]{0,63}")
ODD = "odd"  # what a version or product is called that does not look like one
SIZE_BYTES = 1 << 50
MOST = 1e18  # of bytes a second, seconds and elements: what is more is no measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Rows as the ledger has them, in order of collective, type and size; and how many more there were."""

    rows: tuple[Mapping[str, Any], ...] = ()
    cut: int = 0


def points(report: Report, wanted: Sequence[Threshold] = ()) -> Points:
    """Measured twice, the slower one counts, and all wrong elements. What has a threshold is cut last."""
    found: dict[tuple[str, str, int], Measurement] = {}
    wrong: Counter[tuple[str, str, int]] = Counter()
    for one in _measurements(report):
        key = (one.collective, one.dtype, one.size_bytes)
        wrong[key] += one.wrong_elements
        if key not in found or one.bus_bytes_per_second < found[key].bus_bytes_per_second:
            found[key] = one
    asked = ThresholdIndex(wanted)
    references = {key: threshold for key, one in found.items() if (threshold := asked.highest(one))}
    kept = sorted(sorted(found, key=lambda key: (key not in references, key))[:POINTS])
    rows = tuple(_row(found[key], wrong[key], references.get(key)) for key in kept)
    return Points(rows=rows, cut=len(found) - len(kept))


def hangs(report: Report) -> dict[str, int]:
    """Cases by suite that hung at any try."""
    counted: Counter[str] = Counter()
    for suite in report.suites:
        for case in suite.cases:
            counted[suite.name] += Outcome.HUNG in {case.outcome, *(one.outcome for one in case.earlier)}
    return dict(counted)


def made_with(report: Report) -> dict[str, str]:
    """Backend, versions and GPU, each empty where it is not known. Where nodes differ there is no first case."""
    versions = {str(key): value for key, value in report.versions.items()}
    gpus = Counter(gpu for node in report.preflight for gpu in node.gpus)
    product = gpus.most_common(1)[0][0] if gpus else ""
    return {
        "backend": _known(WORD, report.backend),
        "torchVersion": _known(VERSION, versions.get("torch", "")),
        "ncclVersion": _known(VERSION, versions.get("nccl", "")),
        "gpuProduct": _known(PRODUCT, product),
    }


def _measurements(report: Report) -> Iterator[Measurement]:
    every = (one for suite in report.suites for case in suite.cases for one in case.measurements)
    return (one for one in every if _is_sound(one))


def _is_sound(one: Measurement) -> bool:
    numbers = (one.bus_bytes_per_second, one.seconds, one.slowest_rank_seconds, one.wrong_elements)
    are_numbers = all(math.isfinite(number) and 0 <= number < MOST for number in numbers)
    are_words = WORD.fullmatch(one.collective) and WORD.fullmatch(one.dtype)
    return bool(are_words) and are_numbers and 0 < one.size_bytes <= SIZE_BYTES


def _row(one: Measurement, wrong: int, reference: Threshold | None) -> dict[str, Any]:
    row = {
        "collective": one.collective,
        "dtype": one.dtype,
        "sizeBytes": one.size_bytes,
        "busBytesPerSecond": one.bus_bytes_per_second,
        "seconds": one.seconds,
        "slowestSeconds": one.slowest_rank_seconds,
        "wrongElements": wrong,
    }
    return row | ({"referenceBytesPerSecond": reference.min_bus_bandwidth_bytes_per_second} if reference else {})


def _known(pattern: re.Pattern[str], text: str) -> str:
    return text if not text or pattern.fullmatch(text) else ODD


CaseKey = tuple[str, str]  # suite, id

# Verdicts that say something about single cases; of a run that was stopped by its deadline the cases before it count.
ABOUT_CASES = frozenset({Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT})
CASES = 100_000  # of a report that are looked at: a forged one may have millions, and the operator has more to do
MESSAGE_BYTES = 256


class Letter(StrEnum):
    """One run in the history of a case."""

    GOOD = "P"
    BAD = "F"
    FLAKY = "f"  # it failed, and passed when it was tried again
    ABSENT = "."  # skipped, not reached, not chosen


# What is not here says nothing about the case: skipped and not run.
LETTERS = {
    Outcome.PASSED: Letter.GOOD,
    Outcome.XFAILED: Letter.GOOD,  # as its suite expects
    Outcome.XPASSED: Letter.GOOD,  # it works
    **dict.fromkeys(BAD, Letter.BAD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCase:
    """A case that was bad, if only at first. `told` is its message as the report has it."""

    letter: Letter
    outcome: Outcome
    told: str

    @property
    def message(self) -> str:
        """Harmless, short and on one line."""
        return escaping.short_line(formatting.short(self.told[: limits.MESSAGE_BYTES]), MESSAGE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A case that is in neither of the two did not run."""

    troubles: Mapping[CaseKey, BadCase] = field(default_factory=dict)
    good: frozenset[CaseKey] = frozenset()
    nodes: frozenset[str] = frozenset()
    queue: str = ""  # that the run waited in
    points: Points = field(default_factory=Points)
    hangs: Mapping[str, int] = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_cases(self) -> bool:
        return bool(self.troubles or self.good)


NOTHING = Results()


def of(evidence: Evidence, status: Mapping[str, Any], *, most: int = CASES) -> Results:
    """Of a run that has come to this terminal status."""
    nodes, queue = _nodes(evidence, status), evidence.test.spec.queue_name
    if not isinstance(evidence.report, ReportFound) or status["verdict"] not in ABOUT_CASES:
        return Results(nodes=nodes, queue=queue)
    report, suites = evidence.report.report, {suite.name for suite in evidence.test.spec.suites}
    troubles: dict[CaseKey, BadCase] = {}
    good: set[CaseKey] = set()
    for suite, case in islice(_cases(report), most):
        letter = _letter(case)
        if suite not in suites or letter is Letter.ABSENT:
            continue
        key = (suite, escaping.short_case_id(case.id))
        if letter is Letter.GOOD:
            good.add(key)
        elif key not in troubles or letter is Letter.BAD:  # an id that comes twice is as good as its worse half
            troubles[key] = BadCase(letter=letter, outcome=case.outcome, told=case.message)
    return Results(
        troubles=troubles,
        good=frozenset(good - troubles.keys()),
        nodes=nodes,
        queue=queue,
        points=points(report, evidence.test.spec.thresholds),
        hangs={suite: count for suite, count in hangs(report).items() if suite in suites},
        made_with=made_with(report),
    )


def _cases(report: Report) -> Iterator[tuple[str, CaseResult]]:
    return ((suite.name, case) for suite in report.suites for case in suite.cases)


def _letter(case: CaseResult) -> Letter:
    return Letter.FLAKY if case.is_flaky else LETTERS.get(case.outcome, Letter.ABSENT)


def _nodes(evidence: Evidence, status: Mapping[str, Any]) -> frozenset[str]:
    """Of the last attempt, by what Kubernetes says, not by what the report does. A record names only the first ones."""
    attempts = status.get("attempts") or ()
    named = attempts[-1].get("nodes") or () if attempts else ()
    if named and len(named) < attempt_record.NODES:
        return frozenset(named)
    return frozenset((*named, *(pod.node for pod in evidence.pods if pod.node)))
