"""What is kept of a CronJob whose label names a series: when its nights are due."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from disttest_operator.core import bodies, naming
from disttest_operator.core.views import Body

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
    yield bodies.time(meta["creationTimestamp"]) or bodies.EPOCH
    for entry in meta.get("managedFields") or ():
        moment, fields = bodies.time(entry.get("time")), entry.get("fieldsV1") or {}
        labels = fields.get("f:metadata", {}).get("f:labels", {})
        is_decisive = LABEL_FIELD in labels or DECISIVE & fields.get("f:spec", {}).keys()
        if moment and is_decisive and not entry.get("subresource"):
            yield moment
