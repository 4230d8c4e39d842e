"""Expected runs of the series for which CronJobs create runs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from disttest_operator.core.api import naming
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body
from disttest_operator.core.schedule import cron

DEADLINE_SECONDS = 6 * 3600  # of a Job that has none
MAX_ALLOWANCE_SECONDS = 366 * 86400  # Kubernetes accepts numbers that overflow a date
SCHEDULE_FIELDS = frozenset({"f:schedule", "f:suspend", "f:timeZone"})  # in managed fields, as is the label
LABEL_FIELD = f"f:{naming.LABEL_SERIES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobView:
    """A scheduled run must have its verdict within the allowance. Times before `expects_since` do not count."""

    namespace: str
    name: str
    series: str
    schedule: str
    time_zone: str  # empty: that of the controller
    is_suspended: bool
    allowance_seconds: int
    expects_since: datetime

    @property
    def rhythm(self) -> tuple[str, str, str, bool]:
        """A change of any of these restarts `expects_since`."""
        return self.series, self.schedule, self.time_zone, self.is_suspended


def cron_job(body: Body, before: CronJobView | None = None) -> CronJobView | None:
    """None for a CronJob without the label of a series. `before` is its previous view."""
    meta, spec = body["metadata"], body["spec"]
    series = (meta.get("labels") or {}).get(naming.LABEL_SERIES)
    if not series:
        return None
    job = spec["jobTemplate"].get("spec") or {}
    allowance_seconds = (spec.get("startingDeadlineSeconds") or 0) + job.get("activeDeadlineSeconds", DEADLINE_SECONDS)
    view = CronJobView(
        namespace=meta["namespace"],
        name=meta["name"],
        series=series,
        schedule=spec["schedule"],
        time_zone=spec.get("timeZone") or "",
        is_suspended=bool(spec.get("suspend")),
        allowance_seconds=min(allowance_seconds, MAX_ALLOWANCE_SECONDS),
        expects_since=max(_schedule_changes(meta)),
    )
    if before and before.rhythm == view.rhythm:
        # A change of only the image also changes the time of the whole entry in the managed fields.
        return replace(view, expects_since=before.expects_since)
    return view


def _schedule_changes(meta: Body) -> Iterator[datetime]:
    """When the CronJob was created, and when its schedule changed: runs that were suspended then are not missing."""
    yield decoding.time(meta["creationTimestamp"]) or decoding.EPOCH
    for entry in meta.get("managedFields") or ():
        moment, fields = decoding.time(entry.get("time")), entry.get("fieldsV1") or {}
        labels = fields.get("f:metadata", {}).get("f:labels", {})
        has_schedule = LABEL_FIELD in labels or SCHEDULE_FIELDS & fields.get("f:spec", {}).keys()
        if moment and has_schedule and not entry.get("subresource"):
            yield moment


MAX_SERIES = 100  # each has up to five metrics
RECOMPUTE_AFTER = timedelta(days=1)  # if a schedule has no time within years


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One series, which may have several CronJobs. `due`: the last time whose run must have its verdict by now."""

    namespace: str
    series: str
    due: datetime | None = None
    next: datetime | None = None
    interval_seconds: float | None = None
    is_suspended: bool  # all of them are
    is_readable: bool  # all of them are


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`cut`: number of omitted series, the last ones by name."""

    expected: tuple[Expectation, ...] = ()
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Window:
    """`last` and `next` of a schedule stay the same from `since` until `until`."""

    since: datetime
    until: datetime
    last: datetime | None
    next: datetime | None


Around = Callable[[cron.Cron, ZoneInfo, datetime], tuple[datetime | None, datetime | None]]
_Key = tuple[str, str, int]  # schedule, time zone, seconds before now


class Timetable:
    """Expectations of all series. Times are cached until the next scheduled one, since each scrape needs them."""

    def __init__(self, around: Around = cron.around) -> None:
        self._compute = around
        self._windows: dict[_Key, _Window] = {}
        self._used: dict[_Key, _Window] = {}

    def outlook(self, cron_jobs: Iterable[CronJobView], now: datetime) -> Outlook:
        by_series: dict[tuple[str, str], list[CronJobView]] = defaultdict(list)
        for cron_job in cron_jobs:
            by_series[cron_job.namespace, cron_job.series].append(cron_job)
        kept = sorted(by_series)[:MAX_SERIES]
        self._used = {}
        expected = tuple(self._expect(by_series[pair], now) for pair in kept)
        self._windows = self._used  # drops unused ones
        return Outlook(expected=expected, cut=len(by_series) - len(kept))

    def _expect(self, cron_jobs: list[CronJobView], now: datetime) -> Expectation:
        """Merge the CronJobs of a series; suspended ones expect no runs."""
        readable = [cron_job for cron_job in cron_jobs if _is_readable(cron_job)]
        active = [cron_job for cron_job in readable if not cron_job.is_suspended]
        windows = [self._around(cron_job, now) for cron_job in active or readable]
        last = max((window.last for window in windows if window.last), default=None)
        following = min((window.next for window in windows if window.next), default=None)
        return Expectation(
            namespace=cron_jobs[0].namespace,
            series=cron_jobs[0].series,
            due=max(filter(None, (self._due(cron_job, now) for cron_job in active)), default=None),
            next=following if active else None,
            interval_seconds=(following - last).total_seconds() if following and last else None,
            is_suspended=all(cron_job.is_suspended for cron_job in cron_jobs),
            is_readable=len(readable) == len(cron_jobs),
        )

    def _due(self, cron_job: CronJobView, now: datetime) -> datetime | None:
        last = self._around(cron_job, now, ago_seconds=cron_job.allowance_seconds).last
        return last if last and last >= cron_job.expects_since else None

    def _around(self, cron_job: CronJobView, now: datetime, ago_seconds: int = 0) -> _Window:
        key, moment = (cron_job.schedule, cron_job.time_zone, ago_seconds), now - timedelta(seconds=ago_seconds)
        window = self._used.get(key) or self._windows.get(key)
        if window is None or not window.since <= moment < window.until:
            last, following = self._compute(cron.parse(cron_job.schedule), cron.zone(cron_job.time_zone), moment)
            window = _Window(last or moment, following or moment + RECOMPUTE_AFTER, last, following)
        self._used[key] = window
        return window


def _is_readable(cron_job: CronJobView) -> bool:
    try:
        cron.parse(cron_job.schedule)
        cron.zone(cron_job.time_zone)
    except cron.InvalidScheduleError:
        return False
    return True
