"""Reconciles one run: take a snapshot, plan the next step, carry it out, until nothing is left to do."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.controller import reports
from disttest_operator.controller.log_followers import LogFollowers
from disttest_operator.controller.lookups import HardwareSearch, Lookups
from disttest_operator.controller.snapshot import SnapshotBuilder
from disttest_operator.controller.status_writer import StatusWriter, label_suspect_nodes
from disttest_operator.core import actions
from disttest_operator.core.actions import Step
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import AlreadyExistsError, ApiServerError, ConflictError, RequestRefusedError
from disttest_operator.core.api.model import DistTest, Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.hardware.user_rules import UserRule
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.evidence import Evidence, Observed, Policy, ReportFound
from disttest_operator.core.plan import next_step
from disttest_operator.core.status import progress
from disttest_operator.core.workload import job
from disttest_operator.kubernetes.ports import Cluster, OperationCounter
from disttest_operator.series.ledger_store import LedgerStore
from disttest_operator.series.retention import LedgerExpiry, ReportRetention

STEPS = 40  # of one reconcile; a whole run needs about a dozen
NONCE_BYTES = 16

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileSettings:
    policy: Policy
    rules: tuple[UserRule, ...] = ()  # tried in this order on failed attempts
    label_suspect_nodes: bool = False
    series_idle_days: int = 0  # 0: ledgers are never deleted
    retained_reports: int = 0  # per series; 0: reports are deleted with their runs
    instance: str  # identity of this operator in events


class Reconciler:
    """`plan_later` adds another key to the queue after some seconds."""

    def __init__(
        self,
        cluster: Cluster,
        caches: Cache,
        *,
        settings: ReconcileSettings,
        clock: Callable[[], datetime],
        plan_later: Callable[[Key, float], None],
        counts: OperationCounter,
    ) -> None:
        self._cluster = cluster
        self._caches = caches
        self._settings = settings
        self._clock = clock
        self._statuses = StatusWriter(
            cluster=cluster, caches=caches, clock=clock, instance=settings.instance, plan_later=plan_later
        )
        self._counts = counts
        self._retention = ReportRetention(cluster, caches, most=settings.retained_reports)
        self._ledgers = LedgerStore(
            cluster=cluster, caches=caches, clock=clock, counts=counts, retention=self._retention
        )
        self._expiry = LedgerExpiry(cluster=cluster, caches=caches, clock=clock, idle_days=settings.series_idle_days)
        self._lookups = Lookups(cluster)
        self._followers = LogFollowers(cluster, plan_later, note=counts.note_followed)
        self._snapshots = SnapshotBuilder(
            caches=caches, policy=settings.policy, clock=clock, newest=self._followers.newest
        )
        self._search = HardwareSearch(cluster=cluster, lookups=self._lookups, rules=settings.rules)
        self._large_report = asyncio.Lock()

    async def reconcile(self, key: Key) -> float | None:
        """Seconds until the key must be reconciled without an event; None: never."""
        if key.kind is Kind.SERIES:
            await self._ledgers.settle(key.namespace, key.name)
            await self._expiry.check(key.namespace, key.name)
            if self._settings.label_suspect_nodes:
                await label_suspect_nodes(self._cluster, self._caches.series())
            return None
        permit = reports.MemoryPermit(self._large_report)
        try:
            return await self._reconcile_run(key, permit)
        finally:
            permit.release()

    async def _reconcile_run(self, key: Key, permit: reports.MemoryPermit) -> float | None:
        seen = Observed()
        for _ in range(STEPS):
            evidence = self._snapshots.build(key, seen)
            if evidence is None:
                self._followers.follow(key, None)
                return None
            step = await _next_step(evidence)
            if isinstance(step, actions.Done):
                self._followers.follow(key, progress.target(evidence))
                return step.requeue_seconds
            seen = await self._carry_out(step, evidence, permit)
        raise ApiServerError(f"{key.words}: not finished after {STEPS} steps, the last is {type(step).__name__}")

    async def close(self) -> None:
        await self._followers.close()

    async def _carry_out(self, step: Step, evidence: Evidence, permit: reports.MemoryPermit) -> Observed:  # noqa: C901, PLR0911, PLR0912  # one case a step
        """Carry out the step and add its result to the observations."""
        test, seen = evidence.test, evidence.seen
        match step:
            case actions.ReadReferences(references=references):
                return replace(seen, missing=await self._lookups.missing(test.namespace, references))
            case actions.ReadQuarantine():
                return replace(seen, quarantine=await self._lookups.quarantine(test))
            case actions.ReadNodes():
                return replace(seen, nodes=await self._lookups.nodes())
            case actions.ReadEvents(uids=uids):
                return replace(seen, events=await self._lookups.events(test.namespace, uids))
            case actions.ReadJob(name=name):
                return await self._read_job(test, name, seen)
            case actions.ReadPods(job_uid=job_uid):
                now = self._clock()
                listed = await self._lookups.pods_of(test.namespace, job_uid, now)
                if listed is not None:
                    self._caches.adopt(test, listed, now)
                return replace(seen, has_listed_pods=True)
            case actions.ReadReport():
                found = await reports.read(self._cluster, test, step, self._counts, permit=permit)
                return replace(seen, report=found)
            case actions.SearchHardware(pods=pods):
                return replace(seen, search=await self._search.search(test, pods, seen))
            case actions.WriteReport(name=name):
                return await self._write_report(test, name, seen)
            case actions.CreateService(manifest=manifest):
                return replace(await self._create(Kind.SERVICE, test, manifest, seen), has_service=True)
            case actions.CreateJob():
                return await self._create(Kind.JOB, test, _job_manifest(test, step), seen)
            case actions.Fold():
                return replace(seen, entry=await self._ledgers.fold(test, step))
            case actions.KeepReport():
                await self._retention.keep(test)
                return replace(seen, is_report_kept=True)
            case actions.WriteStatus(status=status, ends_attempt=ends_attempt):
                await self._statuses.write(test, dict(status))
                return Observed() if ends_attempt else seen
            case actions.WriteProgress(progress=steps):
                self._counts.count_progress()
                if not await self._statuses.write_progress(test, steps):
                    self._followers.mute(Key.of_run(test))
                return seen
            case actions.DeleteJob(name=name, uid=uid):
                return await self._delete_job(test, name, uid, seen)
            case actions.DeleteRun():
                await self._delete_run(test)
                return seen
            case actions.Done():
                return seen

    async def _read_job(self, test: DistTest, name: str, seen: Observed) -> Observed:
        body = await self._cluster.get(Kind.JOB, test.namespace, name)
        if body is None or decoding.owner_uid(body) != test.uid:
            return replace(seen, is_job_gone=True)
        self._caches.put(Kind.JOB, body, self._clock())
        return replace(seen, job=decoding.job(body))

    async def _create(self, kind: Kind, test: DistTest, manifest: Manifest, seen: Observed) -> Observed:
        """Create the object once. An existing one must have the run as owner: it may be left from before a crash."""
        name = manifest["metadata"]["name"]
        try:
            body = await self._cluster.create(kind, manifest)
        except AlreadyExistsError:
            found = await self._cluster.get(kind, test.namespace, name)
            if found is None:
                raise
            if decoding.owner_uid(found) != test.uid:
                return replace(seen, taken=f"{manifest['kind']} {name!r}")
            body = found
        except RequestRefusedError as error:
            return replace(seen, refused=f"{manifest['kind']} {name!r} was rejected: {error}")
        else:
            log.info("%s/%s: created %s %s", test.namespace, test.name, manifest["kind"], name)
        if kind is not Kind.JOB:
            return seen
        self._caches.put(kind, body, self._clock())
        return replace(seen, job=decoding.job(body))

    async def _delete_job(self, test: DistTest, name: str, uid: str, seen: Observed) -> Observed:
        log.info("%s/%s: deleting Job %s", test.namespace, test.name, name)
        await self._cluster.delete(Kind.JOB, test.namespace, name, uid=uid)
        if name == naming.job(test, test.attempt):
            return replace(seen, is_job_gone=True)
        # The Service of an earlier attempt would stay until the run is deleted.
        self._caches.forget(Kind.JOB, uid)
        service = await self._cluster.get(Kind.SERVICE, test.namespace, name)
        if service and decoding.owner_uid(service) == test.uid:
            await self._cluster.delete(Kind.SERVICE, test.namespace, name, uid=service["metadata"]["uid"])
        return seen

    async def _write_report(self, test: DistTest, name: str, seen: Observed) -> Observed:
        if not isinstance(seen.report, ReportFound):
            return seen
        return replace(seen, stored=await reports.store(self._cluster, test, name, seen.report))

    async def _delete_run(self, test: DistTest) -> None:
        log.info("%s/%s: deleting the run after its ttlSecondsAfterFinished", test.namespace, test.name)
        with contextlib.suppress(ConflictError):  # its time to live may have been extended: read it again
            await self._cluster.delete(Kind.RUN, test.namespace, test.name, uid=test.uid, version=test.resource_version)
        live = await self._cluster.get(Kind.RUN, test.namespace, test.name)
        if live and live["metadata"]["uid"] == test.uid:
            self._caches.put(Kind.RUN, live, self._clock())
        else:
            self._caches.forget(Kind.RUN, test.uid, int(test.resource_version))


def _job_manifest(test: DistTest, step: actions.CreateJob) -> Manifest:
    nonce = secrets.token_hex(NONCE_BYTES)
    lists = step.quarantine
    return job.build_job(
        test, step.attempt, nonce, quarantine=lists, avoid=step.avoid, avoid_if_possible=step.avoid_if_possible
    )


async def _next_step(evidence: Evidence) -> Step:
    """Plan in a thread for a large report: a hundred thousand cases take seconds."""
    report = evidence.seen.report
    if isinstance(report, ReportFound) and len(report.raw) > reports.LARGE_BYTES:
        return await asyncio.to_thread(next_step, evidence)
    return next_step(evidence)
