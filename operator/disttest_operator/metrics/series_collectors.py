"""Metrics of one series, from the status of its ledger."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from prometheus_client.core import Metric

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.text import escaping
from disttest_operator.cache.cached_run import CachedSeries
from disttest_operator.core.observed import decoding
from disttest_operator.core.series.history import is_flaky
from disttest_operator.metrics import exposition, families
from disttest_operator.metrics.exposition import Row

STATS = {"median": "seconds", "slowest": "slowestSeconds"}


def fabric(status: Mapping[str, Any], common: tuple[str, ...]) -> Iterator[Metric]:
    points = (status.get("bandwidth") or {}).get("points") or ()
    fields = {
        families.BUSBW: "busBandwidthBytesPerSecond",
        families.BUSBW_REFERENCE: "thresholdBytesPerSecond",
        families.WRONG_ELEMENTS: "wrongElements",
    }
    for family, field in fields.items():
        yield exposition.rows(family, common, ((_place(point), point[field]) for point in points if field in point))
    times = (
        ((*_place(point), stat), point[field]) for point in points for stat, field in STATS.items() if field in point
    )
    yield exposition.rows(families.COLLECTIVE_TIME, common, times)


def _place(point: Mapping[str, Any]) -> tuple[str, ...]:
    return point["collective"], point["dtype"], str(point["sizeBytes"]), str(point["nodes"])


# Frequent results start at 0, so that increase() counts the first one.
COMMON = (
    (Verdict.PASSED, Reason.ALL_CASES_PASSED),
    (Verdict.TESTS_FAILED, Reason.CASES_FAILED),
    (Verdict.TESTS_FAILED, Reason.CASES_CRASHED),
    (Verdict.HUNG, Reason.CASES_HUNG),
    (Verdict.TIMED_OUT, Reason.RUN_TIMEOUT),
    (Verdict.INFRA_FAILED, Reason.QUEUE_TIMEOUT),
    (Verdict.INFRA_FAILED, Reason.GANG_TIMEOUT),
    (Verdict.INFRA_FAILED, Reason.DISRUPTED),
    (Verdict.INFRA_FAILED, Reason.NODE_LOST),
    (Verdict.INFRA_FAILED, Reason.GANG_LOST),
    (Verdict.INFRA_FAILED, Reason.REPORT_MISSING),
    (Verdict.ERRORED, Reason.IMAGE_UNAVAILABLE),
    (Verdict.ERRORED, Reason.COLLECTION_FAILED),
)
COMMON_RETRIES = ((Reason.DISRUPTED,), (Reason.NODE_LOST,), (Reason.GANG_LOST,))
COMMON_DURATIONS = (Verdict.PASSED, Verdict.TESTS_FAILED)
STEPS = ("queued", "scheduled", "pulled", "joined", "ran", "collected")
OUTCOMES = frozenset(outcome.value for outcome in Outcome)
NO_VERDICT_OF_TESTS = frozenset({Verdict.INFRA_FAILED.value, Verdict.CANCELLED.value})

Status = Mapping[str, Any]


def of(series: CachedSeries) -> Iterator[Metric]:
    """All families with the labels namespace and series, except those of open runs."""
    status, common = series.status, (series.namespace, series.name)
    totals = status.get("totals") or {}
    yield exposition.rows(families.RUNS, common, _counts(totals.get("runs"), ("verdict", "reason"), COMMON))
    yield exposition.rows(families.RETRIES, common, _counts(totals.get("retries"), ("reason",), COMMON_RETRIES))
    yield exposition.rows(families.CASES, common, _cases(totals))
    yield exposition.rows(
        families.HANGS, common, (((row["suite"],), row["count"]) for row in totals.get("hangs") or ())
    )
    runs = status.get("runs") or ()
    yield exposition.histogram(families.RUN_DURATION, common, totals.get("durations"), COMMON_DURATIONS, runs=runs)
    yield exposition.histogram(families.STEP_DURATION, common, totals.get("steps"), STEPS)
    yield exposition.histogram(families.GANG_WAIT, common, totals.get("waits"))
    yield from _last(status, common)
    yield from _cases_by_name(status, common)
    yield from fabric(status, common)
    tested = (((row["name"],), _epoch(row["time"])) for row in status.get("nodes") or ())
    yield exposition.rows(families.NODE_TESTED, common, ((labels, at) for labels, at in tested if at))
    yield exposition.single(families.LEDGER_PENDING, common, len(status.get("pending") or ()))


def cut(ledgers: Iterable[CachedSeries]) -> Mapping[str, int]:
    """The number of series that are missing because of a bound, by the name of their family."""
    missing: Counter[str] = Counter()
    for series in ledgers:
        status = series.status
        bandwidth = status.get("bandwidth") or {}
        missing[families.FAILING_STREAK.shown_name] += status.get("failingOmitted", 0)
        missing[families.FLAKY.shown_name] += status.get("flippingOmitted", 0)
        missing[families.NODE_SUSPECT.shown_name] += status.get("suspectNodesOmitted", 0)
        missing[families.NODE_TESTED.shown_name] += status.get("nodesOmitted", 0)
        missing[families.BUSBW.shown_name] += bandwidth.get("omitted", 0)
    return missing


def _counts(rows: Iterable[Status] | None, labels: Sequence[str], common: Iterable[tuple[str, ...]]) -> list[Row]:
    """Counts by labels, with 0 for missing rows of `common`."""
    found = {tuple(row[label] for label in labels): row["count"] for row in rows or ()}
    return sorted({**dict.fromkeys(common, 0), **found}.items())


def _cases(totals: Status) -> Iterator[Row]:
    for row in totals.get("cases") or ():
        if row["outcome"] in OUTCOMES:
            yield (row["suite"], row["outcome"]), row["count"]


def _last(status: Status, common: tuple[str, ...]) -> Iterator[Metric]:
    """The last run, and the last one with results."""
    runs: list[Status] = list(status.get("runs") or ())
    last, verdict = (runs[-1] if runs else {}), status.get("lastVerdict")
    verdicts = [((one.value,), one == verdict) for one in Verdict] if verdict else []
    yield exposition.rows(families.LAST_VERDICT, common, verdicts)
    for family, field in ((families.LAST_COMPLETION, "lastCompletionTime"), (families.LAST_SUCCESS, "lastSuccessTime")):
        yield exposition.single(family, common, _epoch(status.get(field)))
    steps: Status = last.get("stepSeconds") or {}
    yield exposition.rows(families.LAST_STEPS, common, (((step,), steps[step]) for step in STEPS if step in steps))
    suites = next((run["suites"] for run in reversed(runs) if run.get("suites")), ())
    yield exposition.rows(families.LAST_CASES, common, _cases_of(suites))
    flaky = (((suite["name"],), (suite.get("cases") or {}).get("flaky", 0)) for suite in suites)
    yield exposition.rows(families.LAST_FLAKY, common, flaky)
    passed = (((suite["name"],), suite["verdict"] == Verdict.PASSED) for suite in suites if "verdict" in suite)
    yield exposition.rows(families.SUITE_SUCCESS, common, passed)
    seconds = (((suite["name"],), suite["seconds"]) for suite in suites if "seconds" in suite)
    yield exposition.rows(families.SUITE_DURATION, common, seconds)
    yield exposition.single(families.STREAK, common, status.get("streak"))
    about_tests = [run["verdict"] == Verdict.PASSED for run in runs if run["verdict"] not in NO_VERDICT_OF_TESTS]
    yield exposition.single(families.PASS_RATIO, common, _mean(about_tests))
    flips = [one != other for one, other in pairwise(about_tests)]
    yield exposition.single(families.FLIP_RATIO, common, _mean(flips))
    made: Status = status.get("environment") or {}
    labels = tuple(made.get(key, "") for key in ("backend", "torchVersion", "ncclVersion", "gpuProduct"))
    yield exposition.rows(families.INFO, common, [(labels, 1)] if made else [])
    network = (made.get("transport", ""), made.get("network", ""))
    yield exposition.rows(families.TRANSPORT_INFO, common, [(network, 1)] if network[0] else [])


def _cases_of(suites: Iterable[Status]) -> Iterator[Row]:
    """With zeros, which a ledger omits."""
    for suite in suites:
        for outcome in Outcome:
            yield (suite["name"], outcome.value), (suite.get("cases") or {}).get(outcome.value, 0)


def _cases_by_name(status: Status, common: tuple[str, ...]) -> Iterator[Metric]:
    """Suites without such cases have zeros if the ledger counts their cases."""
    suites = {row["suite"] for row in (status.get("totals") or {}).get("cases") or ()}
    failing, flipping = status.get("failing") or (), status.get("flipping") or ()
    counts = {
        families.FAILING: Counter(row["suite"] for row in failing),
        families.NEWLY_FAILING: Counter(row["suite"] for row in failing if row["streak"] == 1),
        families.FLAKY: Counter(row["suite"] for row in flipping if is_flaky(row["outcomes"])),
        families.FLIPS: Counter({row["suite"]: row["flips"] for row in sorted(flipping, key=itemgetter("flips"))}),
    }
    for family, by_suite in counts.items():
        yield exposition.rows(
            family, common, (((suite,), by_suite[suite]) for suite in sorted(suites | by_suite.keys()))
        )
    streaks: dict[tuple[str, ...], int] = {}  # escaped names may be equal
    for row in failing:
        streaks.setdefault((row["suite"], escaping.label(row["case"])), row["streak"])
    yield exposition.rows(families.FAILING_STREAK, common, streaks.items())


def _mean(truths: Sequence[bool]) -> float | None:
    return sum(truths) / len(truths) if truths else None


def _epoch(text: str | None) -> float | None:
    moment = decoding.time(text)
    return moment.timestamp() if moment else None
