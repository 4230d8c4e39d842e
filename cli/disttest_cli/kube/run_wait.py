"""Waits for what a run comes to, whatever happens to the connection."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from disttest_cli.kube import resources
from disttest_cli.kube.client import Body, Cluster, ClusterError, RefusedError

PATIENCE_SECONDS = (
    120  # with an API server that takes nothing, before there is a run; and with one that refuses after that
)
PAUSE_SECONDS = 3
WATCH_SECONDS = 60  # of one watch: what a dead connection hides is seen this late at most

Say = Callable[[str], None]
See = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitClock:
    """Time as a test may have it."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRun:
    """By uid: another may come to have the name."""

    namespace: str
    name: str
    uid: str


class DeletedError(Exception):
    """There is no such run any more."""


class OverdueError(Exception):
    """No verdict came in time."""


class SignalReceived(BaseException):
    """By a signal. No Exception, as KeyboardInterrupt is none: whoever catches all of these is not to catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def heeding_signals() -> Iterator[None]:
    """SIGTERM and SIGINT raise ToldToEnd, also in the middle of a read."""

    def tell(number: int, _: FrameType | None) -> None:
        raise SignalReceived(number)

    before = {number: signal.signal(number, tell) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class ConnectionTrouble:
    """What is wrong with the connection; said once, until it is another."""

    warn: Say
    since: float | None = None  # that the API server refuses
    _told: str = ""

    def over(self) -> None:
        self.since = None
        if self._told:
            self.warn("the API server answers again")
        self._told = ""

    def tell(self, error: ClusterError, now: float) -> None:
        """Raises what has been refused for too long: rights do not come back by themselves."""
        if isinstance(error, RefusedError):
            self.since = now if self.since is None else self.since
            if now - self.since >= PATIENCE_SECONDS:
                raise error
        if str(error) != self._told:
            self.warn(f"{error}; trying again")
        self._told = str(error)


def wait(cluster: Cluster, run: WaitedRun, *, seconds: float, see: See, warn: Say, clock: WaitClock) -> dict[str, Any]:
    """The status with its verdict; every one before that is seen, also such as say nothing new."""
    for body in _states(cluster, run, clock.now() + seconds, ConnectionTrouble(warn), clock):
        status: dict[str, Any] = body.get("status") or {}
        if status.get("verdict"):
            return status
        see(status)
    raise OverdueError


def _states(
    cluster: Cluster, run: WaitedRun, deadline: float, trouble: ConnectionTrouble, clock: WaitClock
) -> Iterator[Body]:
    """The object as it is, and whenever it has changed.

    Every watch begins with a look: so nothing depends on how the one before it ended, or on how old a version may be.
    """
    while (left := deadline - clock.now()) > 0:
        try:
            body = cluster.get(resources.RUNS, run.namespace, run.name)
            trouble.over()
            if body is None or body["metadata"]["uid"] != run.uid:
                raise DeletedError
            yield body
            seconds = max(1, int(min(WATCH_SECONDS, left)))
            version = str(body["metadata"]["resourceVersion"])
            for event in cluster.watch(resources.RUNS, run.namespace, run.name, version=version, seconds=seconds):
                if event.is_gone or event.body["metadata"]["uid"] != run.uid:
                    raise DeletedError
                yield event.body
                if clock.now() >= deadline:
                    return
        except ClusterError as error:
            trouble.tell(error, clock.now())
        clock.sleep(min(PAUSE_SECONDS, max(0.0, deadline - clock.now())))
