"""Puts the parts together and ends them in order: workers, Lease, watches, servers."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from aiohttp import web

from disttest_operator.cache.cache import WATCHED, Cache, Key
from disttest_operator.config.options import Options
from disttest_operator.controller import cron_job_access, handlers, health
from disttest_operator.controller.reconcile import Reconciler, ReconcileSettings
from disttest_operator.controller.resync import Resync
from disttest_operator.controller.workqueue import WorkQueue
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.hardware import known_signs
from disttest_operator.core.observed.evidence import Policy
from disttest_operator.kubernetes import requests
from disttest_operator.kubernetes.api_client import KubernetesCluster, connect
from disttest_operator.kubernetes.lease import NAME, Elector
from disttest_operator.kubernetes.ports import ClusterError, ConflictError, Kind
from disttest_operator.metrics import Metrics
from disttest_operator.serving import servers
from disttest_operator.serving.access import Access, Reviews
from disttest_operator.serving.certificates import Certificate

CONFLICT_SECONDS = 0.05
STOP_WORK_SECONDS = 1.5  # for what is being done when we are told to go
STOP_WATCH_SECONDS = 1.5

log = logging.getLogger(__name__)


class Operator:
    """One process of the operator."""

    def __init__(self, options: Options) -> None:
        self._options = options
        defaults = Defaults(image=options.runner_image, gpu_resource=options.gpu_resource, timeouts=options.timeouts)
        self._caches = Cache(defaults)
        self._health = health.Health(options.namespaces)
        version = metadata.version("disttest")
        self._metrics = Metrics(self._caches, version=version, speaks=self._speaks, clock=_now)
        self._queue: WorkQueue[Key] = WorkQueue(note_wait=self._metrics.note_wait)
        self._identity = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._elector: Elector | None = None
        self._kinds: tuple[Kind, ...] = WATCHED
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """The exit code: 0 when told to stop, 1 when something that must not end has ended."""
        cluster = await connect(self._note_request, kubeconfig=self._options.kubeconfig, workers=self._options.workers)
        listening = [
            await self._serve_metrics(cluster),
            await servers.serve(health.health_app(self._health), self._options.health_address),
        ]
        try:
            return await self._work(cluster)
        finally:
            for server in listening:
                await server.cleanup()
            await cluster.close()

    async def _serve_metrics(self, cluster: KubernetesCluster) -> web.AppRunner:
        address, count = self._options.metrics_address, self._metrics.count_scrape
        if self._options.metrics_insecure:
            return await servers.serve(
                servers.metrics_app(self._render, ask=servers.nobody_is_asked, count=count), address
            )
        files = self._options.metrics_certificates
        names = (NAME, f"{NAME}.{self._options.lease_namespace}.svc")
        shown = Certificate(Path(files) if files else None, names=names, clock=_now, notes=self._metrics)
        app = servers.metrics_app(self._render, ask=Access(Reviews(cluster).judge).answer, count=count)
        servers.keep(shown, app)
        return await servers.serve(app, address, shown.tls)

    async def _work(self, cluster: KubernetesCluster) -> int:
        elector = self._elector = Elector(cluster, namespace=self._options.lease_namespace, identity=self._identity)
        cluster.fence(elector.may_write)
        waiting = await self._do_without_cron_jobs(cluster)
        reconciler, resync = self._reconciler(cluster), self._resync(cluster)
        numbers = range(self._options.workers)
        workers = [asyncio.create_task(self._worker(reconciler), name=f"worker {n}") for n in numbers]
        stop_watching = asyncio.Event()
        watching = asyncio.create_task(self._watch(cluster, stop_watching), name="watches")
        vital = [
            watching,
            asyncio.create_task(elector.run(), name="lease"),
            asyncio.create_task(resync.run(), name="resync"),
            asyncio.create_task(self._stop.wait(), name="stop"),
            *waiting,
        ]
        done, _ = await asyncio.wait([*vital, *workers], return_when=asyncio.FIRST_COMPLETED)
        is_told = self._stop.is_set()
        for task in () if is_told else done:
            log.error("%s ended%s; the process ends too", task.get_name(), _why(task))
        await self._end_workers(workers)
        await reconciler.close()
        await elector.release()
        stop_watching.set()
        await asyncio.wait([watching], timeout=STOP_WATCH_SECONDS)
        await _cancel(vital)
        return 0 if is_told else 1

    async def _do_without_cron_jobs(self, cluster: KubernetesCluster) -> list[asyncio.Task[None]]:
        """Where they may not be read: a task that ends when they may, since watches are chosen at the beginning."""
        try:
            why = await cron_job_access.refusal(cluster, self._options.namespaces)
        except ClusterError:
            return []  # nobody answers; the watches will see
        if not why:
            return []
        log.warning("of schedules nothing is known until CronJobs may be read (manifests/rbac/runs): %s", why)
        self._kinds = tuple(kind for kind in WATCHED if kind is not Kind.CRON_JOB)
        self._health.leave_out(Kind.CRON_JOB)
        return [
            asyncio.create_task(cron_job_access.wait(cluster, self._options.namespaces), name="doing without CronJobs")
        ]

    def _reconciler(self, cluster: KubernetesCluster) -> Reconciler:
        policy = Policy(
            allowed=self._options.allow,
            fixed_nodes=self._options.fixed_nodes,
            image_patience_seconds=self._options.image_patience_seconds,
            gang_patience_seconds=self._options.gang_patience_seconds,
        )
        rules = (*self._options.rules, *known_signs.KNOWN)
        settings = ReconcileSettings(
            policy=policy,
            rules=rules,
            label_suspect_nodes=self._options.label_suspect_nodes,
            series_idle_days=self._options.series_idle_days,
            kept_reports=self._options.kept_reports,
            instance=self._identity,
        )
        return Reconciler(
            cluster,
            self._caches,
            settings=settings,
            clock=_now,
            plan_later=self._queue.add_after,
            counts=self._metrics,
        )

    def _resync(self, cluster: KubernetesCluster) -> Resync:
        return Resync(
            cluster,
            self._caches,
            namespaces=self._options.namespaces,
            add=self._queue.add,
            clock=_now,
            health=self._health,
            metrics=self._metrics,
            kinds=self._kinds,
        )

    async def _watch(self, cluster: KubernetesCluster, stop: asyncio.Event) -> None:
        registry = handlers.registry(
            kinds=self._kinds,
            caches=self._caches,
            add=self._queue.add,
            clock=_now,
            note=self._note_event,
            server=cluster.server,
            session=cluster.watch_session,
        )
        namespaces = self._options.namespaces
        identity, on_signal = self._identity, self._stop.set
        await handlers.watch(registry, namespaces=namespaces, identity=identity, stop=stop, on_signal=on_signal)

    async def _worker(self, reconciler: Reconciler) -> None:
        """Waits for the caches and the Lease, then takes one key after the other."""
        if self._elector is None:
            return
        while True:
            await self._elector.is_active.wait()
            await self._health.synced.wait()
            key = await self._queue.take()
            try:
                await self._look(reconciler, key)
            finally:
                self._queue.done(key)

    async def _look(self, reconciler: Reconciler, key: Key) -> None:
        begun = time.monotonic()
        try:
            again_seconds = await reconciler.reconcile(key)
        except ConflictError:
            self._queue.add_after(key, CONFLICT_SECONDS)
            result = "conflict"
        except ClusterError as error:
            pause = self._queue.add_failed(key)
            log.warning("%s: %s; again in %.1f s", key.words, error, pause)
            result = "error"
        except Exception:
            # A fault of ours in one run must not keep the others from being served.
            pause = self._queue.add_failed(key)
            log.exception("%s: fault in the operator; again in %.1f s", key.words, pause)
            result = "error"
        else:
            self._queue.succeeded(key, again_seconds)
            result = "success"
        self._metrics.count_reconcile(key.kind, result=result, seconds=time.monotonic() - begun)

    async def _end_workers(self, workers: list[asyncio.Task[None]]) -> None:
        """Let what is being done come to its end, and begin nothing new."""
        self._queue.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._queue.idle.wait(), STOP_WORK_SECONDS)
        await _cancel(workers)

    def _speaks(self) -> bool:
        return self._health.synced.is_set() and self._elector is not None and self._elector.is_active.is_set()

    def _render(self, accept: str) -> tuple[bytes, str]:
        now = time.time()
        self._metrics.note_state(
            is_active=self._elector is not None and self._elector.is_active.is_set(),
            queue_depth=len(self._queue),
            watches_begun={resource: now - age for resource, age in self._health.watch_ages().items()},
        )
        return self._metrics.render(accept)

    def _note_request(self, request: requests.ApiRequest, code: str, seconds: float) -> None:
        self._metrics.count_request(request, code, seconds)
        self._health.note_request(request, code)

    def _note_event(self, kind: Kind, namespace: str) -> None:
        self._metrics.note_event(kind)
        self._health.note_event(kind, namespace)


def _why(task: asyncio.Task[Any]) -> str:
    """What ended it, where it is not said in the log already."""
    error = None if task.cancelled() else task.exception()
    return f": {error!r}" if error else ""


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)
