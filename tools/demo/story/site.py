"""A site whose operator counts the nights of the story, with the real ledger, caches and metrics."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from disttest_contract.outcomes import Counts, judge
from disttest_operator.cache.cache import Cache
from disttest_operator.core.api import conditions, naming
from disttest_operator.core.api.model import Defaults, DistTest, Spec, Suite
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.evidence import Evidence, Observed, ReportFound
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import status
from disttest_operator.core.verdict.rule import Ending
from disttest_operator.kubernetes.api_session import ApiRequest
from disttest_operator.kubernetes.ports import LedgerWrite, Transport
from disttest_operator.metrics import Metrics
from tools.demo.story.story import NIGHTS, OUTAGE, PLANS, SUITES, SeriesPlan, StoryRun, play, report_of

NAMESPACE = "gpu-ci"
PREFIX = "disttest_"
VERSION = "0.1.0"
IMAGE = "runner:1"


class Site:
    """The simulated site. Time goes forward only: `advance` counts the runs that ended by then."""

    def __init__(self, last_midnight: datetime, *, has_bad_end: bool) -> None:
        """The last night follows `last_midnight`, which need not be midnight in UTC; whole minutes."""
        self.begin = last_midnight - timedelta(days=NIGHTS - 1)
        self.now = self.begin
        self.caches = Cache(Defaults(image=IMAGE))
        self.metrics = Metrics(self.caches, version=VERSION, speaks=lambda: True, clock=lambda: self.now)
        self._ledgers: dict[str, ledger.Status] = {plan.series: {} for plan in PLANS}
        self.changes = 0  # grows with every write
        self._phases: dict[str, str] = {}
        for plan in PLANS:
            self.caches.put(Kind.CRON_JOB, _cron_job(plan, self.begin), self.begin)
        self._coming = sorted(_runs(self.begin, has_bad_end=has_bad_end), key=lambda run: run.ended)

    @property
    def is_down(self) -> bool:
        """Whether the site has its outage and answers no scrape."""
        first, last = (self.begin + timedelta(days=OUTAGE[index]) for index in (0, -1))
        return first <= self.now < last + timedelta(hours=20)

    def advance(self, now: datetime) -> None:
        self.now = now
        while self._coming and self._coming[0].ended <= now:
            self._count(self._coming.pop(0))
        for run in self._coming:
            if run.created <= now:
                self._put_active(run)
        self._work()

    def text(self) -> str:
        """The text of one scrape."""
        return self.metrics.render("")[0].decode()

    def _count(self, run: StoryRun) -> None:
        report = report_of(run, NAMESPACE) if run.night.has_results else None
        verdict, reason = run.night.ending or judge(report.counts if report else Counts())
        evidence = Evidence(
            test=_test(run),
            seen=Observed(report=ReportFound(report=report, raw=b"", sha256="ab" * 32) if report else None),
            now=run.ended,
        )
        last = status.finished(evidence, Ending(verdict=verdict, reason=reason, message="so it was"))
        last |= {
            "durationSeconds": (run.ended - run.started).total_seconds(),
            "stepSeconds": run.steps,
            "suspectNodes": [
                {"name": node, "reason": "NodeLost", "evidence": "", "confirmed": is_sure}
                for node, is_sure in run.night.suspects.items()
            ],
            "retries": [{"reason": "NodeLost", "count": run.night.retries}] if run.night.retries else [],
            "attempts": [{"number": 1, "nodes": list(run.night.nodes)}],
        }
        entry = ledger.make_entry(uid=run.name, name=run.name, status=last)
        known = ledger.fold(self._ledgers[run.plan.series], entry, run_results.of(evidence, last), nodes=run.plan.nodes)
        known = self._ledgers[run.plan.series] = ledger.settle(known, [run.name])
        self.changes += 1
        meta = self._meta(run.plan.series, f"{NAMESPACE}-{run.plan.series}")
        self.caches.put(Kind.SERIES, _body("DistTestSeries", meta, status=known), self.now)
        self._put(run, phase="Finished", verdict=verdict.value, completionTime=conditions.stamp(run.ended))
        self.metrics.count_ledger_write(LedgerWrite.SUCCESS)
        self.metrics.count_report(Transport.LOG, "found" if report else "missing")

    def _put_active(self, run: StoryRun) -> None:
        phase = "Queued" if self.now < run.started else "Running"
        if self._phases.get(run.name) == phase:
            return
        self._phases[run.name] = phase
        started = {"startTime": conditions.stamp(run.started)} if phase == "Running" else {}
        self._put(run, phase=phase, **started)

    def _put(self, run: StoryRun, **status_: Any) -> None:
        self.changes += 1
        meta = self._meta(run.name, run.name) | {"generation": 1, "creationTimestamp": conditions.stamp(run.created)}
        spec = {"series": run.plan.series, "suites": [{"name": "collectives"}], "nodes": run.plan.nodes}
        self.caches.put(Kind.RUN, _body("DistTest", meta, spec=spec, status=status_), self.now)

    def _meta(self, name: str, uid: str) -> dict[str, Any]:
        return {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": str(self.changes)}

    def _work(self) -> None:
        """Count about what an idle operator does between two scrapes."""
        for kind in (Kind.RUN, Kind.SERIES):
            self.metrics.count_reconcile(kind, result="success", seconds=0.004)
            self.metrics.note_event(kind)
        for verb, resource, seconds in (("get", "leases", 0.003), ("update", "leases", 0.006), ("list", "pods", 0.02)):
            self.metrics.count_request(ApiRequest(verb=verb, resource=resource), "200", seconds)
        self.metrics.note_wait(0.001)
        self.metrics.count_scrape(200)
        watches = {kind.resource: self.now.timestamp() - 120 for kind in (Kind.RUN, Kind.SERIES, Kind.JOB, Kind.POD)}
        self.metrics.note_state(is_active=True, queue_depth=0, watches_begun=watches)


def _body(kind: str, meta: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"apiVersion": "disttest.dev/v1alpha1", "kind": kind, "metadata": meta, **parts}


def _test(run: StoryRun) -> DistTest:
    spec = Spec(
        suites=tuple(Suite(name=name, builtin=name) for name, _, _ in SUITES),
        nodes=run.plan.nodes,
        image=IMAGE,
        thresholds=(run.plan.threshold,),
    )
    return DistTest(
        namespace=NAMESPACE,
        name=run.name,
        uid=run.name,
        generation=1,
        resource_version="1",
        created=run.created,
        is_deleting=False,
        spec=spec,
        runner_image=IMAGE,
    )


def _cron_job(plan: SeriesPlan, created: datetime) -> dict[str, Any]:
    first = created + timedelta(minutes=plan.minute)
    meta = {
        "name": plan.series,
        "namespace": NAMESPACE,
        "uid": f"cron-{plan.series}",
        "resourceVersion": "1",
        "creationTimestamp": conditions.stamp(created),
        "labels": {naming.LABEL_SERIES: plan.series},
    }
    spec = {
        "schedule": f"{first.minute} {first.hour} * * *",
        "timeZone": "Etc/UTC",
        "startingDeadlineSeconds": 3600,
        "jobTemplate": {"spec": {"activeDeadlineSeconds": 16200}},
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}


def _runs(begin: datetime, *, has_bad_end: bool) -> Iterator[StoryRun]:
    for number in range(NIGHTS):
        for plan in PLANS:
            if night := play(plan, number, has_bad_end=has_bad_end):
                created = begin + timedelta(days=number, minutes=plan.minute)
                yield StoryRun(plan=plan, number=number, night=night, created=created)
