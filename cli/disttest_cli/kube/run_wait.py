"""Wait for the verdict of a run; survive broken connections and end at signals."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from disttest_cli.kube.client import Body, KubeClient
from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.resources import Kind

PATIENCE_SECONDS = 120  # of retries if the API server is not available before the run exists, or rejects afterwards
PAUSE_SECONDS = 3
WATCH_SECONDS = 60  # of one watch, and the longest delay through a dead connection

Say = Callable[[str], None]
See = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitClock:
    """Time, which tests replace."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRun:
    """Identified by uid, since a later run may have the same name."""

    namespace: str
    name: str
    uid: str


class DeletedError(Exception):
    """The run was deleted."""


class OverdueError(Exception):
    """There is no verdict within the timeout."""


class SignalReceived(BaseException):
    """Like KeyboardInterrupt no Exception, so that `except Exception` does not catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT raise SignalReceived, also during a read."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise SignalReceived(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(slots=True)
class ConnectionErrors:
    """Reports each error of the connection once, until it changes."""

    warn: Say
    since: float | None = None  # when the API server started to refuse
    _reported: str = ""

    def recovered(self) -> None:
        self.since = None
        if self._reported:
            self.warn("the API server responds again")
        self._reported = ""

    def report(self, error: ApiServerError, now: float) -> None:
        """Warn about an error; raise it if the API server has refused for PATIENCE_SECONDS."""
        if isinstance(error, RequestRefusedError):
            self.since = now if self.since is None else self.since
            if now - self.since >= PATIENCE_SECONDS:
                raise error
        if str(error) != self._reported:
            self.warn(f"{error}; retrying")
        self._reported = str(error)


def wait(
    cluster: KubeClient, run: WaitedRun, *, seconds: float, see: See, warn: Say, clock: WaitClock
) -> dict[str, Any]:
    """Return the status with the verdict; `see` gets each status before. Raises OverdueError, DeletedError."""
    for body in _states(cluster, run, clock.now() + seconds, ConnectionErrors(warn), clock):
        status: dict[str, Any] = body.get("status") or {}
        if status.get("verdict"):
            return status
        see(status)
    raise OverdueError


def _states(
    cluster: KubeClient, run: WaitedRun, deadline: float, errors: ConnectionErrors, clock: WaitClock
) -> Iterator[Body]:
    """The object, and again after each change.

    It is read before each watch, so that neither the end of the last watch nor an old version matters.
    """
    while (left := deadline - clock.now()) > 0:
        try:
            body = cluster.get(Kind.RUN, run.namespace, run.name)
            errors.recovered()
            if body is None or body["metadata"]["uid"] != run.uid:
                raise DeletedError
            yield body
            seconds = max(1, int(min(WATCH_SECONDS, left)))
            version = str(body["metadata"]["resourceVersion"])
            for event in cluster.watch(Kind.RUN, run.namespace, run.name, version=version, seconds=seconds):
                if event.is_gone or event.body["metadata"]["uid"] != run.uid:
                    raise DeletedError
                yield event.body
                if clock.now() >= deadline:
                    return
        except ApiServerError as error:
            errors.report(error, clock.now())
        clock.sleep(min(PAUSE_SECONDS, max(0.0, deadline - clock.now())))
