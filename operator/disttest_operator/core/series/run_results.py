"""Results of a run for its ledger, in addition to the terminal status: outcomes of cases, measurements, nodes.

The code under test can forge a report: names are cut and escaped here.
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
from disttest_contract.results import network_transport
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
ODD = "odd"  # replaces an invalid version or product
SIZE_BYTES = 1 << 50
MAX_NUMBER = 1e18  # of bytes per second, seconds and elements


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Rows of the ledger in order of collective, dtype and size, and the number of omitted ones."""

    rows: tuple[Mapping[str, Any], ...] = ()
    cut: int = 0


def points(report: Report, wanted: Sequence[Threshold] = ()) -> Points:
    """Of repeated measurements the slowest counts, and all wrong elements. Those with a threshold are omitted last."""
    found: dict[tuple[str, str, int], Measurement] = {}
    wrong: Counter[tuple[str, str, int]] = Counter()
    for one in filter(_is_sound, (one for _, case in _cases(report) for one in case.measurements)):
        key = (one.collective, one.dtype, one.size_bytes)
        wrong[key] += one.wrong_elements
        if key not in found or one.bus_bandwidth_bytes_per_second < found[key].bus_bandwidth_bytes_per_second:
            found[key] = one
    asked = ThresholdIndex(wanted)
    references = {key: threshold for key, one in found.items() if (threshold := asked.highest(one))}
    kept = sorted(sorted(found, key=lambda key: (key not in references, key))[:POINTS])
    rows = tuple(_row(found[key], wrong[key], references.get(key)) for key in kept)
    return Points(rows=rows, cut=len(found) - len(kept))


def hangs(report: Report) -> dict[str, int]:
    """Number of cases that hung in any try, by suite."""
    counted: Counter[str] = Counter()
    for suite, case in _cases(report):
        counted[suite] += Outcome.HUNG in {case.outcome, *(one.outcome for one in case.earlier)}
    return dict(counted)


def _cases(report: Report) -> Iterator[tuple[str, CaseResult]]:
    return ((suite.name, case) for suite in report.suites for case in suite.cases)


def environment(report: Report) -> dict[str, str]:
    """Backend, versions, the most frequent GPU and the network; unknown ones are empty."""
    versions = {str(key): value for key, value in report.versions.items()}
    gpus = Counter(gpu for node in report.preflight for gpu in node.gpus)
    product = gpus.most_common(1)[0][0] if gpus else ""
    return {
        "backend": _known(WORD, report.backend),
        "torchVersion": _known(VERSION, versions.get("torch", "")),
        "ncclVersion": _known(VERSION, versions.get("nccl", "")),
        "gpuProduct": _known(PRODUCT, product),
        "transport": report.transport.used.transport.value,
        "network": network_transport.known_network(report.transport.used.network),
    }


def _is_sound(one: Measurement) -> bool:
    numbers = (one.bus_bandwidth_bytes_per_second, one.seconds, one.slowest_rank_seconds, one.wrong_elements)
    are_numbers = all(math.isfinite(number) and 0 <= number < MAX_NUMBER for number in numbers)
    are_words = WORD.fullmatch(one.collective) and WORD.fullmatch(one.dtype)
    return bool(are_words) and are_numbers and 0 < one.size_bytes <= SIZE_BYTES


def _row(one: Measurement, wrong: int, reference: Threshold | None) -> dict[str, Any]:
    row = {
        "collective": one.collective,
        "dtype": one.dtype,
        "sizeBytes": one.size_bytes,
        "busBandwidthBytesPerSecond": one.bus_bandwidth_bytes_per_second,
        "seconds": one.seconds,
        "slowestSeconds": one.slowest_rank_seconds,
        "wrongElements": wrong,
    }
    return row | ({"thresholdBytesPerSecond": reference.min_bus_bandwidth_bytes_per_second} if reference else {})


def _known(pattern: re.Pattern[str], text: str) -> str:
    return text if not text or pattern.fullmatch(text) else ODD


CaseKey = tuple[str, str]  # suite, id

# Verdicts after which single cases count; of a run that timed out, those before the deadline.
ABOUT_CASES = frozenset({Verdict.PASSED, Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT})
CASES = 100_000  # read from a report: a forged one may have millions
MESSAGE_BYTES = 256


class Letter(StrEnum):
    """One run in the history of a case."""

    GOOD = "P"
    BAD = "F"
    FLAKY = "f"  # it failed, and passed when it was tried again
    ABSENT = "."  # skipped, not reached, not selected


LETTERS = {  # others, such as skipped, are ABSENT
    Outcome.PASSED: Letter.GOOD,
    Outcome.XFAILED: Letter.GOOD,  # as its suite expects
    Outcome.XPASSED: Letter.GOOD,  # it works
    **dict.fromkeys(BAD, Letter.BAD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCase:
    """A case that was bad in at least one try."""

    letter: Letter
    outcome: Outcome
    raw_message: str  # from the report

    @property
    def message(self) -> str:
        """Escaped, short and in one line; computed only for the cases that are listed."""
        return escaping.short_line(formatting.short_message(self.raw_message[: limits.MESSAGE_BYTES]), MESSAGE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A case that is neither in `bad` nor in `good` did not run."""

    bad: Mapping[CaseKey, BadCase] = field(default_factory=dict)
    good: frozenset[CaseKey] = frozenset()
    nodes: frozenset[str] = frozenset()
    queue: str = ""  # that the run waited in
    points: Points = field(default_factory=Points)
    hangs: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_cases(self) -> bool:
        return bool(self.bad or self.good)


NOTHING = Results()


def of(evidence: Evidence, status: Mapping[str, Any], *, most: int = CASES) -> Results:
    """Results of a run with this terminal status; at most `most` cases are read."""
    nodes, queue = _nodes(evidence, status), evidence.test.spec.queue_name
    if not isinstance(evidence.report, ReportFound) or status["verdict"] not in ABOUT_CASES:
        return Results(nodes=nodes, queue=queue)
    report, suites = evidence.report.report, {suite.name for suite in evidence.test.spec.suites}
    bad: dict[CaseKey, BadCase] = {}
    good: set[CaseKey] = set()
    for suite, case in islice(_cases(report), most):
        letter = _letter(case)
        if suite not in suites or letter is Letter.ABSENT:
            continue
        key = (suite, escaping.short_case_id(case.id))
        if letter is Letter.GOOD:
            good.add(key)
        elif key not in bad or letter is Letter.BAD:  # of a repeated id the worst outcome counts
            bad[key] = BadCase(letter=letter, outcome=case.outcome, raw_message=case.message)
    return Results(
        bad=bad,
        good=frozenset(good - bad.keys()),
        nodes=nodes,
        queue=queue,
        points=points(report, evidence.test.spec.thresholds),
        hangs={suite: count for suite, count in hangs(report).items() if suite in suites},
        environment=environment(report),
    )


def _letter(case: CaseResult) -> Letter:
    return Letter.FLAKY if case.is_flaky else LETTERS.get(case.outcome, Letter.ABSENT)


def _nodes(evidence: Evidence, status: Mapping[str, Any]) -> frozenset[str]:
    """Nodes of the last attempt, from Kubernetes, not from the report. A record only has the first ones."""
    attempts = status.get("attempts") or ()
    named = attempts[-1].get("nodes") or () if attempts else ()
    if named and len(named) < attempt_record.NODES:
        return frozenset(named)
    return frozenset((*named, *(pod.node for pod in evidence.pods if pod.node)))
