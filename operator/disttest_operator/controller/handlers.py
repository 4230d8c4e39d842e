"""kopf for what it is good at: login, and watches that come back. Handlers fill caches and queue keys, nothing else."""

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import aiohttp
import kopf

from disttest_operator.cache.cache import WATCHED, Cache, Key
from disttest_operator.core.api import naming
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import Kind

OWN_DOMAIN = "operator.disttest.dev"
# A watch ends by itself and is begun anew, so that one that hangs is found out.
WATCH_SECONDS = 240
INACTIVITY_SECONDS = 70  # the server sends a bookmark every minute
# By label; the others are all ours.
SELECTORS = {Kind.JOB: naming.SELECTOR, Kind.POD: naming.SELECTOR, Kind.CRON_JOB: naming.LABEL_SERIES}

log = logging.getLogger(__name__)


class NoDiff(kopf.DiffBaseStorage):  # type: ignore[misc]  # kopf's types are not followed
    """kopf copies every object to find out what changed; nobody asks."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class NoProgress(kopf.ProgressStorage):  # type: ignore[misc]  # kopf's types are not followed
    """Nothing of kopf's is kept on any object."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def registry(  # what handlers need, given once
    *,
    kinds: Sequence[Kind] = WATCHED,
    caches: Cache,
    add: Callable[[Key], None],
    clock: Callable[[], datetime],
    note: Callable[[Kind, str], None],
    server: str,
    session: Callable[[], aiohttp.ClientSession],
) -> kopf.OperatorRegistry:
    """A registry of our own: kopf's global one would be shared by tests."""
    handlers = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=server, aiohttp_session=session())

    async def take(kind: Kind, *, type: str | None, body: Body, **_: Any) -> None:  # noqa: A002  # kopf's name
        raw = dict(body)
        note(kind, raw["metadata"].get("namespace", ""))
        key = caches.remove(kind, raw, clock()) if type == "DELETED" else caches.put(kind, raw, clock())
        if key:
            add(key)

    kopf.on.login(id="login", registry=handlers)(login)
    for kind in kinds:
        group, _, version = kind.api_version.rpartition("/")
        handler = functools.partial(take, kind)
        # Without a group kopf would take resources of that name from any group.
        kopf.on.event(group, version, kind.resource, id=f"take-{kind.resource}", registry=handlers)(handler)
    return handlers


def settings() -> kopf.OperatorSettings:
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.scanning.disabled = True
    chosen.peering.standalone = True
    chosen.persistence.finalizer = f"{OWN_DOMAIN}/unused"
    chosen.persistence.diffbase_storage = NoDiff()
    chosen.persistence.progress_storage = NoProgress()
    chosen.queueing.idle_timeout = 1.0
    chosen.queueing.exit_timeout = 0.5
    chosen.watching.server_timeout = WATCH_SECONDS
    chosen.watching.client_timeout = WATCH_SECONDS + 30
    chosen.watching.inactivity_timeout = INACTIVITY_SECONDS
    chosen.watching.chunk_size = 500
    chosen.networking.error_backoffs = (0.5, 1, 2, 4, 8, 15)
    chosen.process.ultimate_exiting_timeout = 5.0
    for kind, selector in SELECTORS.items():
        group, _, version = kind.api_version.rpartition("/")
        chosen.watching.label_selectors[group, version, kind.resource] = selector
    return chosen


async def watch(
    handlers: kopf.OperatorRegistry,
    *,
    namespaces: Sequence[str],
    identity: str,
    stop: asyncio.Event,
    on_signal: Callable[[], None],
) -> None:
    """Until `stop`, or until a watch cannot be had any more: then it raises, and the process must end."""
    where: dict[str, Any] = {"namespaces": list(namespaces)} if namespaces else {"clusterwide": True}
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
    # Without an identity kopf asks for the user's name, and a container's user has none.
    tasks = await kopf.spawn_tasks(
        registry=handlers, settings=settings(), identity=identity, standalone=True, stop_flag=stop, **where
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)  # kopf's own would end the watches before the work is done
    await kopf.run_tasks(tasks, ignored=before)
