"""Whether the operator lives: its watches move; and how that is told."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from aiohttp import web

from disttest_operator.cache.cache import WATCHED
from disttest_operator.kubernetes.ports import Kind
from disttest_operator.kubernetes.requests import ApiRequest

STALLED_SECONDS = 420.0  # watches are begun anew every four minutes

log = logging.getLogger(__name__)


class Health:
    """Watches are begun anew again and again, and what they tell is compared with lists now and then.

    Without `namespaces` each kind has one watch for all of them.
    """

    def __init__(self, namespaces: Sequence[str] = (), monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since = monotonic()
        self._namespaces = tuple(namespaces)
        self._watches = tuple((kind.resource, place) for kind in WATCHED for place in self._namespaces or ("",))
        self._begun: dict[tuple[str, str], float] = {}
        self._behind: set[tuple[str, str]] = set()
        self.all_begun = asyncio.Event()  # every watch has been begun once
        self.synced = asyncio.Event()

    def leave_out(self, kind: Kind) -> None:
        """It is not watched."""
        self._watches = tuple(watch for watch in self._watches if watch[0] != kind.resource)

    def note_request(self, request: ApiRequest, code: str) -> None:
        if request.verb == "watch" and code == "200":
            self._begun[request.resource, request.namespace] = self._monotonic()
            if all(watch in self._begun for watch in self._watches):
                self.all_begun.set()

    def note_event(self, kind: Kind, namespace: str) -> None:
        self._behind.discard(self._watch(kind, namespace))

    def note_behind(self, kind: Kind, namespace: str) -> None:
        """A list held what the watch did not tell even later."""
        self._behind.add(self._watch(kind, namespace))

    def problems(self) -> list[str]:
        """Why this process should be started anew; none if it should not."""
        now = self._monotonic()
        ages = {watch: now - self._begun.get(watch, self._since) for watch in self._watches}
        stalled = [
            f"watch of {_words(watch)} was begun {age:.0f} s ago"
            for watch, age in ages.items()
            if age > STALLED_SECONDS
        ]
        return stalled + [f"watch of {_words(watch)} does not tell what lists show" for watch in sorted(self._behind)]

    def watch_ages(self) -> dict[str, float]:
        """Seconds since the watches of a resource were begun anew, of its namespaces the oldest. None begun: absent."""
        ages: dict[str, float] = {}
        for (resource, _), begun in self._begun.items():
            ages[resource] = max(ages.get(resource, 0.0), self._monotonic() - begun)
        return ages

    def _watch(self, kind: Kind, namespace: str) -> tuple[str, str]:
        return kind.resource, namespace if self._namespaces else ""


def _words(watch: tuple[str, str]) -> str:
    resource, namespace = watch
    return f"{resource} in {namespace}" if namespace else resource


def health_app(health: Health) -> web.Application:
    async def live(_: web.Request) -> web.Response:
        problems = health.problems()
        return web.Response(status=503 if problems else 200, text="; ".join(problems) or "ok")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(
            status=200 if health.synced.is_set() else 503, text="ok" if health.synced.is_set() else "syncing"
        )

    app = web.Application()
    app.add_routes([web.get("/healthz", live), web.get("/readyz", ready)])
    return app
