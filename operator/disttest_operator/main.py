"""Starts the parts of the operator, and stops them in order: workers, Lease, watches, servers."""

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from aiohttp import web

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.config.flags import Options
from disttest_operator.controller.informer import Informer, WatchHealth
from disttest_operator.controller.reconcile import Reconciler, ReconcileSettings
from disttest_operator.controller.workqueue import WorkQueue
from disttest_operator.core.api.api_errors import ApiServerError, ConflictError
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.hardware import known_signs
from disttest_operator.core.observed.evidence import Policy
from disttest_operator.kubernetes import api_session, watches
from disttest_operator.kubernetes.api_client import KubernetesCluster, connect
from disttest_operator.kubernetes.lease import NAME, LeaderElector
from disttest_operator.kubernetes.ports import WATCHED
from disttest_operator.metrics import Metrics
from disttest_operator.serving import servers
from disttest_operator.serving.access import AccessCache, review_token
from disttest_operator.serving.certificates import Certificate

CONFLICT_SECONDS = 0.05
STOP_WORK_SECONDS = 1.5  # for running reconciles
STOP_WATCH_SECONDS = 1.5

log = logging.getLogger(__name__)


class Operator:
    """One process of the operator."""

    def __init__(self, options: Options) -> None:
        self._options = options
        defaults = Defaults(image=options.runner_image, gpu_resource=options.gpu_resource, timeouts=options.timeouts)
        self._caches = Cache(defaults)
        self._health = WatchHealth(options.namespaces)
        version = metadata.version("disttest")
        self._metrics = Metrics(self._caches, version=version, speaks=self._exposes_runs, clock=_now)
        self._queue: WorkQueue[Key] = WorkQueue(note_wait=self._metrics.note_wait)
        self._identity = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._elector: LeaderElector | None = None
        self._kinds: tuple[Kind, ...] = WATCHED
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code: 0 after a signal, 1 if a task ended unexpectedly."""
        cluster = await connect(self._note_request, kubeconfig=self._options.kubeconfig, workers=self._options.workers)
        running = [
            await self._serve_metrics(cluster),
            await servers.serve(
                servers.health_app(self._health.problems, self._health.synced.is_set), self._options.health_address
            ),
        ]
        try:
            return await self._work(cluster)
        finally:
            for server in running:
                await server.cleanup()
            await cluster.close()

    async def _serve_metrics(self, cluster: KubernetesCluster) -> web.AppRunner:
        address, count = self._options.metrics_address, self._metrics.count_scrape
        if self._options.metrics_insecure:
            app = servers.metrics_app(self._render, authorize=servers.allow_all, count=count)
            return await servers.serve(app, address)
        files = self._options.metrics_certificates
        names = (NAME, f"{NAME}.{self._options.lease_namespace}.svc")
        certificate = Certificate(Path(files) if files else None, names=names, clock=_now, counter=self._metrics)
        access = AccessCache(partial(review_token, cluster.create))
        app = servers.metrics_app(self._render, authorize=access.decide, count=count)
        servers.reload_while_serving(certificate, app)
        return await servers.serve(app, address, certificate.tls)

    async def _work(self, cluster: KubernetesCluster) -> int:
        elector = self._elector = LeaderElector(
            cluster, namespace=self._options.lease_namespace, identity=self._identity
        )
        cluster.fence(elector.may_write)
        waiting = await self._exclude_cron_jobs(cluster)
        reconciler, informer = self._reconciler(cluster), self._informer(cluster)
        numbers = range(self._options.workers)
        workers = [asyncio.create_task(self._worker(reconciler), name=f"worker {n}") for n in numbers]
        stop_watching = asyncio.Event()
        watching = asyncio.create_task(self._watch(cluster, informer, stop_watching), name="watches")
        vital = [
            watching,
            asyncio.create_task(elector.run(), name="lease"),
            asyncio.create_task(informer.run(), name="resync"),
            asyncio.create_task(self._stop.wait(), name="stop"),
            *waiting,
        ]
        done, _ = await asyncio.wait([*vital, *workers], return_when=asyncio.FIRST_COMPLETED)
        is_stopped = self._stop.is_set()
        for task in () if is_stopped else done:
            log.error("%s ended unexpectedly%s; the operator stops", task.get_name(), _why(task))
        await self._end_workers(workers)
        await reconciler.close()
        await elector.release()
        stop_watching.set()
        await asyncio.wait([watching], timeout=STOP_WATCH_SECONDS)
        await _cancel(vital)
        return 0 if is_stopped else 1

    async def _exclude_cron_jobs(self, cluster: KubernetesCluster) -> list[asyncio.Task[None]]:
        """Without permission for CronJobs: a task that ends when it is granted, since watches are chosen at start."""
        try:
            why = await watches.cron_jobs_refusal(cluster, self._options.namespaces)
        except ApiServerError as error:
            log.warning("permission to list CronJobs is not known, so they are watched: %s", error)
            return []
        if not why:
            return []
        log.warning("schedules are unknown without permission to list CronJobs (manifests/rbac/runs): %s", why)
        self._kinds = tuple(kind for kind in WATCHED if kind is not Kind.CRON_JOB)
        self._health.exclude(Kind.CRON_JOB)
        access = watches.wait_for_cron_jobs(cluster, self._options.namespaces)
        return [asyncio.create_task(access, name="wait for CronJobs")]

    def _reconciler(self, cluster: KubernetesCluster) -> Reconciler:
        settings = ReconcileSettings(
            policy=Policy(
                allowed=self._options.allow,
                fixed_nodes=self._options.fixed_nodes,
                image_pull_timeout_seconds=self._options.image_pull_timeout_seconds,
                partial_gang_timeout_seconds=self._options.partial_gang_timeout_seconds,
            ),
            rules=(*self._options.rules, *known_signs.KNOWN),
            label_suspect_nodes=self._options.label_suspect_nodes,
            series_idle_days=self._options.series_idle_days,
            retained_reports=self._options.retained_reports,
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

    def _informer(self, cluster: KubernetesCluster) -> Informer:
        return Informer(
            cluster=cluster,
            caches=self._caches,
            namespaces=self._options.namespaces,
            add=self._queue.add,
            clock=_now,
            health=self._health,
            metrics=self._metrics,
            kinds=self._kinds,
        )

    async def _watch(self, cluster: KubernetesCluster, informer: Informer, stop: asyncio.Event) -> None:
        registry = watches.build_registry(
            kinds=self._kinds, on_event=informer.handle_event, server=cluster.server, session=cluster.watch_session
        )
        namespaces, identity, on_signal = self._options.namespaces, self._identity, self._stop.set
        await watches.watch(registry, namespaces=namespaces, identity=identity, stop=stop, on_signal=on_signal)

    async def _worker(self, reconciler: Reconciler) -> None:
        """Wait for the cache and the Lease, then reconcile one key after the other."""
        if self._elector is None:
            return
        while True:
            await self._elector.is_active.wait()
            await self._health.synced.wait()
            key = await self._queue.take()
            try:
                await self._reconcile(reconciler, key)
            finally:
                self._queue.done(key)

    async def _reconcile(self, reconciler: Reconciler, key: Key) -> None:
        started = time.monotonic()
        try:
            again_seconds = await reconciler.reconcile(key)
        except ConflictError:
            self._queue.add_after(key, CONFLICT_SECONDS)
            result = "conflict"
        except ApiServerError as error:
            pause = self._queue.add_failed(key)
            log.warning("%s: %s; retry in %.1f s", key.words, error, pause)
            result = "error"
        except Exception:
            # A bug in the operator must not prevent the reconciliation of other runs.
            pause = self._queue.add_failed(key)
            log.exception("%s: bug in the operator; retry in %.1f s", key.words, pause)
            result = "error"
        else:
            self._queue.succeeded(key, again_seconds)
            result = "success"
        self._metrics.count_reconcile(key.kind, result=result, seconds=time.monotonic() - started)

    async def _end_workers(self, workers: list[asyncio.Task[None]]) -> None:
        """Wait for running reconciles, and start no other."""
        self._queue.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._queue.idle.wait(), STOP_WORK_SECONDS)
        await _cancel(workers)

    def _exposes_runs(self) -> bool:
        return self._health.synced.is_set() and self._is_active()

    def _is_active(self) -> bool:
        return self._elector is not None and self._elector.is_active.is_set()

    def _render(self, accept: str) -> tuple[bytes, str]:
        now = time.time()
        self._metrics.note_state(
            is_active=self._is_active(),
            queue_depth=len(self._queue),
            watches_begun={resource: now - age for resource, age in self._health.watch_ages().items()},
        )
        return self._metrics.render(accept)

    def _note_request(self, request: api_session.ApiRequest, code: str, seconds: float) -> None:
        self._metrics.count_request(request, code, seconds)
        self._health.note_request(request, code)


def _why(task: asyncio.Task[Any]) -> str:
    """The task's error, if it has one that is not logged yet."""
    error = None if task.cancelled() else task.exception()
    return f": {error!r}" if error else ""


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now() -> datetime:
    return datetime.now(UTC)
