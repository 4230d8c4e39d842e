"""The logs of leaders, followed while their runs go on: what each said last is kept for the next look at its run.

An extra: nothing waits for it, and nothing that happens here ends or delays a run.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from disttest_contract.transport.progress import MARK, Progress, seal
from disttest_operator.cache.cached_run import Key
from disttest_operator.core.observed.evidence import ProgressSeen
from disttest_operator.core.status import progress
from disttest_operator.core.status.progress import FollowTarget
from disttest_operator.kubernetes.ports import Cluster, ClusterError, RefusedError

STREAMS = 128  # at once: each takes 0.3 MiB here, a connection at the API server and one at a kubelet
TAIL_LINES = 1000  # a line says all; the last one may be minutes old, and ranks may write much
LOG_BYTES = 16 << 20  # of one connection; an agent keeps its log below a quarter of it
LAST_STEP = "finished"  # what comes after it is the report, which is read when the leader has ended
JITTER = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowPace:
    look_seconds: float = 1.0  # from a line to the look at its run: several lines may come together
    opening_seconds: float = 0.2  # between two connections: after a change of operators there are many to be made
    first_pause_seconds: float = 1.0  # before a log is opened again, doubled each time
    longest_pause_seconds: float = 60.0
    well_seconds: float = 60.0  # a connection that lasted so long makes the next pause a first one


@dataclass(slots=True, eq=False)
class _Follow:
    key: Key
    target: FollowTarget
    task: asyncio.Task[None] | None = None  # None: it waits for room
    look: asyncio.TimerHandle | None = None
    told: Progress | None = None
    is_muted: bool = False


class LogFollowers:
    """Asked by reconciles only, hence idle where this operator does not act. `note` is told how many are followed."""

    def __init__(
        self,
        cluster: Cluster,
        plan_later: Callable[[Key, float], None],
        *,
        note: Callable[[int], None],
        most: int = STREAMS,
        pace: FollowPace | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan_later = plan_later
        self._note_followed = note
        self._most = most
        self._pace = pace or FollowPace()
        self._follows: dict[Key, _Follow] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # those too that are being cancelled
        self._door = asyncio.Lock()  # one connection is made after the other
        self._is_refusal_said = self._is_lack_said = self._is_closed = False

    @property
    def followed(self) -> int:
        return sum(follow.task is not None for follow in self._follows.values())

    def follow(self, key: Key, target: FollowTarget | None) -> None:
        """From now on this one's log, or none."""
        before = self._follows.get(key)
        if self._is_closed or (before.target if before else None) == target:
            return
        if before:
            self._forget(before)
        if target:
            self._follows[key] = _Follow(key=key, target=target)
        self._use_room()

    def newest(self, key: Key) -> ProgressSeen | None:
        follow = self._follows.get(key)
        if follow is None or follow.told is None:
            return None
        spacing_seconds = progress.spacing_seconds(self.followed)
        return ProgressSeen(told=follow.told, nonce=follow.target.nonce, spacing_seconds=spacing_seconds)

    def mute(self, key: Key) -> None:
        """Nobody can use what this attempt says."""
        if follow := self._follows.get(key):
            self._forget(follow)
            self._follows[key] = _Follow(key=key, target=follow.target, is_muted=True)
            self._use_room()

    async def close(self) -> None:
        self._is_closed = True
        for follow in list(self._follows.values()):
            self._forget(follow)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, follow: _Follow) -> None:
        del self._follows[follow.key]
        if follow.task:
            follow.task.cancel()
        if follow.look:
            follow.look.cancel()

    def _use_room(self) -> None:
        """Who came first is followed first."""
        followed = self.followed
        for follow in self._follows.values():
            if follow.task or follow.is_muted:
                continue
            if followed >= self._most:
                self._say_lack()
                break
            followed += 1
            follow.task = asyncio.create_task(self._run(follow), name=f"log of {follow.key.words}")
            self._tasks.add(follow.task)
            follow.task.add_done_callback(self._tasks.discard)
        self._note_followed(followed)

    async def _run(self, follow: _Follow) -> None:
        try:
            await self._read_again_and_again(follow)
        except Exception:
            # A fault of ours here costs a run its progress, no more.
            log.exception("%s: its log is followed no more", follow.key.words)

    async def _read_again_and_again(self, follow: _Follow) -> None:
        """A log that ends while its run goes on has been cut off, or a pod's event has yet to come."""
        pace, loop = self._pace, asyncio.get_running_loop()
        pause_seconds = pace.first_pause_seconds
        while True:
            async with self._door:
                await asyncio.sleep(pace.opening_seconds)
            begun = loop.time()
            try:
                if await self._has_read_all(follow):
                    return
            except RefusedError as error:
                self._say_refusal(follow, error)
                pause_seconds = pace.longest_pause_seconds
            except ClusterError as error:
                log.debug("%s: %s; its log is opened again in %.0f s", follow.key.words, error, pause_seconds)
            if loop.time() - begun >= pace.well_seconds:
                pause_seconds = pace.first_pause_seconds
            await asyncio.sleep(pause_seconds * (1 + random.uniform(-JITTER, JITTER)))  # noqa: S311  # spreads load only
            pause_seconds = min(2 * pause_seconds, pace.longest_pause_seconds)

    async def _has_read_all(self, follow: _Follow) -> bool:
        """Whether the leader has said that there is no more to come."""
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
                if told := Progress.read(line, target.nonce):
                    self._note(follow, told)
                    if told.step == LAST_STEP:
                        return True
        return False

    def _note(self, follow: _Follow, told: Progress) -> None:
        if told == follow.told:
            return
        follow.told = told
        if follow.look is None:
            loop = asyncio.get_running_loop()
            follow.look = loop.call_later(self._pace.look_seconds, self._look, follow)

    def _look(self, follow: _Follow) -> None:
        """It says whether the status is to be written now, or when."""
        follow.look = None
        self._plan_later(follow.key, 0)

    def _say_refusal(self, follow: _Follow, error: RefusedError) -> None:
        if not self._is_refusal_said:
            self._is_refusal_said = True
            log.warning(
                "%s: its progress is not shown, nor that of others with the same trouble: %s", follow.key.words, error
            )

    def _say_lack(self) -> None:
        if not self._is_lack_said:
            self._is_lack_said = True
            log.warning(
                "%d logs are followed, which is the most: other runs show no progress until one ends", self._most
            )
