"""What CronJobs expect of their series."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client.core import Metric

from disttest_operator.core.schedule import Expectation, Outlook
from disttest_operator.metrics import families, sampling
from disttest_operator.metrics.families import Family


def of(expected: Sequence[Expectation]) -> Iterator[Metric]:
    """All families of the group; what is not known has no sample."""
    for family, value in VALUES.items():
        known = (((one.namespace, one.series), value(one)) for one in expected)
        yield sampling.rows(family, (), ((labels, number) for labels, number in known if number is not None))


def cut(outlook: Outlook) -> dict[str, int]:
    """By the names of families: so many series are missing, at least."""
    return {family.shown_name: outlook.cut for family in VALUES} if outlook.cut else {}


def _stamp(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None


VALUES: Mapping[Family, Callable[[Expectation], float | None]] = {
    families.SCHEDULE_DUE: lambda one: _stamp(one.due),
    families.SCHEDULE_NEXT: lambda one: _stamp(one.next),
    families.SCHEDULE_INTERVAL: lambda one: one.interval_seconds,
    families.SCHEDULE_SUSPENDED: lambda one: one.is_suspended,
    families.SCHEDULE_READABLE: lambda one: one.is_readable,
}
