"""What is expected of the series that CronJobs run."""

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
ALLOWANCE_SECONDS = 366 * 86400  # at most: Kubernetes takes numbers with which no date can be reckoned
DECISIVE = frozenset({"f:schedule", "f:suspend", "f:timeZone"})  # in managed fields, as is the label
LABEL_FIELD = f"f:{naming.LABEL_SERIES}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobView:
    """A scheduled run has its verdict within the allowance. Nothing is expected of times before `expects_since`."""

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
        """With another one, what is expected begins anew."""
        return self.series, self.schedule, self.time_zone, self.is_suspended


def cron_job(body: Body, before: CronJobView | None = None) -> CronJobView | None:
    """None: its label names no series. `before` is what was known of it."""
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
        allowance_seconds=min(allowance_seconds, ALLOWANCE_SECONDS),
        expects_since=max(_decided(meta)),
    )
    if before and before.rhythm == view.rhythm:
        # Who changes the image alone has the time of the whole entry changed: the last night is due as it was.
        return replace(view, expects_since=before.expects_since)
    return view


def _decided(meta: Body) -> Iterator[datetime]:
    """When the CronJob was made, and when somebody wrote what says when it runs: suspended nights were not missed."""
    yield decoding.time(meta["creationTimestamp"]) or decoding.EPOCH
    for entry in meta.get("managedFields") or ():
        moment, fields = decoding.time(entry.get("time")), entry.get("fieldsV1") or {}
        labels = fields.get("f:metadata", {}).get("f:labels", {})
        is_decisive = LABEL_FIELD in labels or DECISIVE & fields.get("f:spec", {}).keys()
        if moment and is_decisive and not entry.get("subresource"):
            yield moment


SERIES = 100  # of which something is told: each has up to five values
LOOK_AGAIN = timedelta(days=1)  # at a schedule that has no time within years


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Of one series, which may have several CronJobs. `due`: the last time whose run must have its verdict by now."""

    namespace: str
    series: str
    due: datetime | None = None
    next: datetime | None = None
    interval_seconds: float | None = None
    is_suspended: bool  # all of them are
    is_readable: bool  # all of them are


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """`cut`: so many series are left out, the last ones by name."""

    expected: tuple[Expectation, ...] = ()
    cut: int = 0


@dataclass(frozen=True, slots=True)
class _Window:
    """Between two neighbouring times of a schedule nothing need be reckoned."""

    since: datetime
    until: datetime
    last: datetime | None
    next: datetime | None


Around = Callable[[cron.Cron, ZoneInfo, datetime], tuple[datetime | None, datetime | None]]
_Asked = tuple[str, str, int]  # schedule, time zone, how many seconds ago


class Timetable:
    """Asked at every scrape, it reckons anew only when a scheduled time has come. Its memory changes no answer."""

    def __init__(self, around: Around = cron.around) -> None:
        self._reckon = around
        self._windows: dict[_Asked, _Window] = {}
        self._asked: dict[_Asked, _Window] = {}

    def outlook(self, cron_jobs: Iterable[CronJobView], now: datetime) -> Outlook:
        by_series: dict[tuple[str, str], list[CronJobView]] = defaultdict(list)
        for cron_job in cron_jobs:
            by_series[cron_job.namespace, cron_job.series].append(cron_job)
        kept = sorted(by_series)[:SERIES]
        self._asked = {}
        expected = tuple(self._expect(by_series[pair], now) for pair in kept)
        self._windows = self._asked  # what nobody asks any more is forgotten
        return Outlook(expected=expected, cut=len(by_series) - len(kept))

    def _expect(self, cron_jobs: list[CronJobView], now: datetime) -> Expectation:
        """What one CronJob of a series does not expect another may; suspended ones expect nothing."""
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
        asked, moment = (cron_job.schedule, cron_job.time_zone, ago_seconds), now - timedelta(seconds=ago_seconds)
        window = self._asked.get(asked) or self._windows.get(asked)
        if window is None or not window.since <= moment < window.until:
            last, following = self._reckon(cron.parse(cron_job.schedule), cron.zone(cron_job.time_zone), moment)
            window = _Window(last or moment, following or moment + LOOK_AGAIN, last, following)
        self._asked[asked] = window
        return window


def _is_readable(cron_job: CronJobView) -> bool:
    try:
        cron.parse(cron_job.schedule)
        cron.zone(cron_job.time_zone)
    except cron.InvalidScheduleError:
        return False
    return True
