"""Runs without a verdict."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from prometheus_client.core import Metric

from disttest_operator.core import deadlines
from disttest_operator.core.evidence import Policy
from disttest_operator.core.model import Concurrency, DistTest, Phase
from disttest_operator.metrics import families, sampling

PHASES = tuple(phase.value for phase in Phase if phase is not Phase.FINISHED)
GRACE_SECONDS = Policy().grace_seconds


def state(tests: Sequence[DistTest], now: datetime) -> tuple[float, ...]:
    """All that is told of the runs of one series: how many are in each phase, the oldest start, the next deadline."""
    counted = Counter(test.status.get("phase") or Phase.QUEUED.value for test in tests)
    numbers = [float(counted[phase]) for phase in PHASES]
    oldest = min(tests, key=lambda test: (test.created, test.uid), default=None)
    if oldest is None:
        return tuple(numbers)
    moving = [test for test in tests if test is oldest or not _waits_for_older(test)]
    ends = [deadlines.of(test, now, grace_seconds=GRACE_SECONDS) for test in moving]
    first = min((end for end in ends if end), default=None)
    return (*numbers, oldest.created.timestamp(), *([first.timestamp()] if first else []))


def _waits_for_older(test: DistTest) -> bool:
    return test.spec.concurrency_policy is Concurrency.WAIT and not test.has_begun


def of(common: tuple[str, ...], told: tuple[float, ...]) -> Iterator[Metric]:
    """From such a state."""
    counts, times = told[: len(PHASES)], told[len(PHASES) :]
    phases = (((phase,), count) for phase, count in zip(PHASES, counts, strict=True))
    yield sampling.rows(families.ACTIVE_RUNS, common, phases)
    yield sampling.rows(families.ACTIVE_START, common, [((), at) for at in times[:1]])
    yield sampling.rows(families.ACTIVE_DEADLINE, common, [((), at) for at in times[1:2]])
