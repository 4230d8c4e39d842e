"""Follows the logs of leaders and keeps the last progress of each for the next reconcile of its run.

No other part waits for it, and no failure here ends or delays a run.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from disttest_contract.transport.progress import MARK, Progress, seal
from disttest_operator.cache.cached_run import Key
from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.observed.evidence import ProgressSeen
from disttest_operator.core.status import progress
from disttest_operator.core.status.progress import FollowTarget
from disttest_operator.kubernetes.ports import Cluster

MAX_STREAMS = 128  # each takes 0.3 MiB here, a connection at the API server and one at a kubelet
TAIL_LINES = 1000  # the last progress may be minutes old, and ranks may write much after it
LOG_BYTES = 16 << 20  # per connection; an agent limits its log to a quarter of it
LAST_STEP = "finished"  # only the report follows, which is read when the leader has ended
JITTER = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTiming:
    reconcile_seconds: float = 1.0  # from a line to the reconcile of its run: several lines may come together
    opening_seconds: float = 0.2  # between two connections: a new active operator opens many
    first_pause_seconds: float = 1.0  # before a log is reopened; doubled each time
    longest_pause_seconds: float = 60.0
    stable_seconds: float = 60.0  # a connection that lasts this long resets the pause


@dataclass(slots=True, eq=False)
class _FollowedLog:
    key: Key
    target: FollowTarget
    task: asyncio.Task[None] | None = None  # None: as many logs as allowed are followed already
    timer: asyncio.TimerHandle | None = None
    last: Progress | None = None
    is_muted: bool = False


class LogFollowers:
    """Used by reconciles only, so a standby follows no logs. `note` receives the number of followed logs."""

    def __init__(
        self,
        cluster: Cluster,
        plan_later: Callable[[Key, float], None],
        *,
        note: Callable[[int], None],
        limit: int = MAX_STREAMS,
        timing: FollowTiming | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan_later = plan_later
        self._note_followed = note
        self._limit = limit
        self._timing = timing or FollowTiming()
        self._follows: dict[Key, _FollowedLog] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # includes tasks that are being cancelled
        self._opening = asyncio.Lock()  # logs are opened one after another
        self._warned: set[str] = set()
        self._is_closed = False

    @property
    def followed(self) -> int:
        return sum(follow.task is not None for follow in self._follows.values())

    def follow(self, key: Key, target: FollowTarget | None) -> None:
        """Follow this log of the run instead of the one before; None: follow no log of it."""
        before = self._follows.get(key)
        if self._is_closed or (before.target if before else None) == target:
            return
        if before:
            self._forget(before)
        if target:
            self._follows[key] = _FollowedLog(key=key, target=target)
        self._start_tasks()

    def newest(self, key: Key) -> ProgressSeen | None:
        follow = self._follows.get(key)
        if follow is None or follow.last is None:
            return None
        spacing_seconds = progress.spacing_seconds(self.followed)
        return ProgressSeen(progress=follow.last, nonce=follow.target.nonce, spacing_seconds=spacing_seconds)

    def mute(self, key: Key) -> None:
        """Follow no log of this attempt: its progress cannot be stored."""
        if follow := self._follows.get(key):
            self._forget(follow)
            self._follows[key] = _FollowedLog(key=key, target=follow.target, is_muted=True)
            self._start_tasks()

    async def close(self) -> None:
        self._is_closed = True
        for follow in list(self._follows.values()):
            self._forget(follow)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, follow: _FollowedLog) -> None:
        del self._follows[follow.key]
        if follow.task:
            follow.task.cancel()
        if follow.timer:
            follow.timer.cancel()

    def _start_tasks(self) -> None:
        """Start following in the order of `follow` calls, up to the limit."""
        followed = self.followed
        for follow in self._follows.values():
            if follow.task or follow.is_muted:
                continue
            if followed >= self._limit:
                words = "the maximum of %d logs is followed: other runs show no progress until one ends"
                self._warn_once(words, self._limit)
                break
            followed += 1
            follow.task = asyncio.create_task(self._run(follow), name=f"log of {follow.key.words}")
            self._tasks.add(follow.task)
            follow.task.add_done_callback(self._tasks.discard)
        self._note_followed(followed)

    async def _run(self, follow: _FollowedLog) -> None:
        try:
            await self._read_until_finished(follow)
        except Exception:
            # A bug in the operator only affects the progress of the run.
            log.exception("%s: the log is no longer followed because of a bug in the operator", follow.key.words)

    async def _read_until_finished(self, follow: _FollowedLog) -> None:
        """Reopen a log that ends early: it was cut off, or the event of its pod has yet to arrive."""
        timing, loop = self._timing, asyncio.get_running_loop()
        pause_seconds = timing.first_pause_seconds
        while True:
            async with self._opening:
                await asyncio.sleep(timing.opening_seconds)
            started = loop.time()
            try:
                if await self._is_finished(follow):
                    return
            except RequestRefusedError as error:
                words = "%s: the log cannot be followed, so progress is not shown (logged only once): %s"
                self._warn_once(words, follow.key.words, error)
                pause_seconds = timing.longest_pause_seconds
            except ApiServerError as error:
                log.debug("%s: %s; the log is reopened in %.0f s", follow.key.words, error, pause_seconds)
            if loop.time() - started >= timing.stable_seconds:
                pause_seconds = timing.first_pause_seconds
            await asyncio.sleep(pause_seconds * (1 + random.uniform(-JITTER, JITTER)))  # noqa: S311  # spreads load only
            pause_seconds = min(2 * pause_seconds, timing.longest_pause_seconds)

    async def _is_finished(self, follow: _FollowedLog) -> bool:
        """Read the log; True when the leader has reported its last step."""
        target = follow.target
        lines = self._cluster.follow_log(
            target.namespace,
            target.pod,
            prefix=f"{MARK} {seal(target.nonce)} ",
            tail_lines=TAIL_LINES,
            limit_bytes=LOG_BYTES,
        )
        async with aclosing(lines):
            async for line in lines:
                if found := Progress.read(line, target.nonce):
                    self._note(follow, found)
                    if found.step == LAST_STEP:
                        return True
        return False

    def _note(self, follow: _FollowedLog, found: Progress) -> None:
        if found == follow.last:
            return
        follow.last = found
        if follow.timer is None:
            loop = asyncio.get_running_loop()
            follow.timer = loop.call_later(self._timing.reconcile_seconds, self._reconcile, follow)

    def _reconcile(self, follow: _FollowedLog) -> None:
        follow.timer = None
        self._plan_later(follow.key, 0)

    def _warn_once(self, words: str, *values: object) -> None:
        if words not in self._warned:
            self._warned.add(words)
            log.warning(words, *values)
