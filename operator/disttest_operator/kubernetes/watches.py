"""Watches by kopf, which logs in and restarts them. No other module uses kopf, and it writes to no object."""

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Sequence
from typing import Any

import aiohttp
import kopf

from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import SELECTORS, WATCHED, Cluster

OWN_DOMAIN = "operator.disttest.dev"
WATCH_SECONDS = 240  # the server ends a watch and kopf restarts it, so that a stalled one is noticed
INACTIVITY_SECONDS = 70  # the server sends a bookmark every minute
ACCESS_POLL_SECONDS = 300.0

log = logging.getLogger(__name__)

OnEvent = Callable[[Kind, str | None, Body], None]  # the kind, the event's type, and the object


def _ignore(*_: object, **__: object) -> None:
    return None


class NoDiff(kopf.DiffBaseStorage):  # type: ignore[misc]  # kopf's types are not followed
    """Avoids kopf's copy of every object, which it compares with later states."""

    fetch = store = _ignore

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})


class NoProgress(kopf.ProgressStorage):  # type: ignore[misc]  # kopf's types are not followed
    """Keeps no state of kopf's handlers on any object."""

    fetch = store = purge = touch = _ignore

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def build_registry(
    *, kinds: Sequence[Kind] = WATCHED, on_event: OnEvent, server: str, session: Callable[[], aiohttp.ClientSession]
) -> kopf.OperatorRegistry:
    """A new registry that calls `on_event` for each event. kopf's global registry would be shared between tests."""
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=server, aiohttp_session=session())

    async def handle(kind: Kind, *, type: str | None, body: Body, **_: Any) -> None:  # noqa: A002  # kopf's name
        on_event(kind, type, dict(body))

    kopf.on.login(id="login", registry=registry)(login)
    for kind in kinds:
        group, _, version = kind.api_version.rpartition("/")
        handler = functools.partial(handle, kind)
        # Without a group kopf would take resources of that name from any group.
        kopf.on.event(group, version, kind.resource, id=f"take-{kind.resource}", registry=registry)(handler)
    return registry


def build_settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.persistence.finalizer = f"{OWN_DOMAIN}/unused"
    settings.persistence.diffbase_storage = NoDiff()
    settings.persistence.progress_storage = NoProgress()
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + 30
    settings.watching.inactivity_timeout = INACTIVITY_SECONDS
    settings.watching.chunk_size = 500
    settings.networking.error_backoffs = (0.5, 1, 2, 4, 8, 15)
    settings.process.ultimate_exiting_timeout = 5.0
    for kind, selector in SELECTORS.items():
        group, _, version = kind.api_version.rpartition("/")
        settings.watching.label_selectors[group, version, kind.resource] = selector
    return settings


async def watch(
    registry: kopf.OperatorRegistry,
    *,
    namespaces: Sequence[str],
    identity: str,
    stop: asyncio.Event,
    on_signal: Callable[[], None],
) -> None:
    """Watch until `stop` is set. Raises when a watch fails permanently: then the process must end."""
    scope: dict[str, Any] = {"namespaces": list(namespaces)} if namespaces else {"clusterwide": True}
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
    # Without an identity kopf looks up the user's name, and a container's user has none.
    tasks = await kopf.spawn_tasks(
        registry=registry, settings=build_settings(), identity=identity, standalone=True, stop_flag=stop, **scope
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)  # kopf's own handler would end the watches before the work is done
    await kopf.run_tasks(tasks, ignored=before)


async def cron_jobs_refusal(cluster: Cluster, namespaces: Sequence[str]) -> str:
    """Why CronJobs cannot be listed in one of the namespaces; empty if they can. A refused watch would end kopf."""
    for namespace in namespaces or ("",):
        try:
            await cluster.list(Kind.CRON_JOB, namespace, label_selector=SELECTORS[Kind.CRON_JOB])
        except RequestRefusedError as error:
            return str(error)
    return ""


async def wait_for_cron_jobs(
    cluster: Cluster, namespaces: Sequence[str], *, poll_seconds: float = ACCESS_POLL_SECONDS
) -> None:
    """Return when CronJobs can be listed: an upgraded operator may get its new permissions later."""
    while True:
        await asyncio.sleep(poll_seconds)
        try:
            if not await cron_jobs_refusal(cluster, namespaces):
                log.info("the operator now has permission to list CronJobs")
                return
        except ApiServerError as error:
            log.warning("the permission to list CronJobs cannot be checked: %s", error)
