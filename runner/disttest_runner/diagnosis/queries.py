"""The agent's connections to the watcher threads of its ranks, and one observation of all ranks at once."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from disttest_runner.diagnosis import observation
from disttest_runner.diagnosis.flight_recorder import Trace
from disttest_runner.diagnosis.observation import STACK_BYTES, RankObservation
from disttest_runner.linux import kernel_states
from disttest_runner.linux.kernel_states import Threads
from disttest_runner.protocol.wire import LineProtocol, Message, WireError, unpack

SIGNAL_SECONDS = 0.1  # without an answer, until a signal handler writes the stacks: it needs no interpreter lock
LOOK_SECONDS = 0.3  # after that a rank whose watcher sleeps cannot answer
SAMPLES = 10  # of the threads of a silent rank, at least
STARVED_SECONDS = 2.0  # for a rank that would answer if it got CPU time
POLL_SECONDS = 0.02
RAW_STACK_BYTES = 256 << 10
LINE_BYTES = 16 << 20  # a whole dump


@dataclass(slots=True)
class RankQueries:
    """Queries to one rank. `stacks` is a memory file that the rank's signal handler writes to."""

    lines: LineProtocol
    stacks: int
    pid: int = 0
    thread: int = 0  # the kernel's id of the watcher
    _answers: dict[str, Message] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _wanted: str = ""
    _stack: str = ""

    @classmethod
    async def open(cls, name: str) -> tuple["RankQueries", list[int]]:
        """Also return the descriptors for the rank, a socket and a file for stacks, which the caller closes."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        answered: list[Callable[[bytes], None]] = []
        _, lines = await loop.create_connection(
            lambda: LineProtocol(lambda _, raw: answered[0](raw), lambda _: None, LINE_BYTES), sock=ours
        )
        queries = cls(lines, os.memfd_create(f"stacks-{name}"))
        answered.append(queries._on_line)
        return queries, [theirs.detach(), os.dup(queries.stacks)]

    def ask(self, message: Message, answer: str) -> None:
        """Send a query; `answer` is the op of the last message that answers it."""
        self._stack = str(self.take("stack", "text") or self._stack)
        self._answers, self._wanted = {}, answer
        self._changed.clear()
        self.lines.send(message)

    def forget(self) -> None:
        """Drop the last answer, which may be large, except for its stack."""
        self._stack, self._answers = self.whole_stack(), {}

    def _on_line(self, raw: bytes) -> None:
        """Ignore what is not an answer, since test code may have written it."""
        with contextlib.suppress(WireError, KeyError, ValueError, TypeError):
            message = unpack(raw)
            if message["op"] == "hello":
                self.thread = int(message["thread"])
                return
            self._answers[message["op"]] = message
            if message["op"] == self._wanted:
                self._changed.set()

    def has_watcher(self, samples: Sequence[Threads]) -> bool:
        return bool(samples) and self.thread in samples[-1]

    @property
    def has_answered(self) -> bool:
        return self._changed.is_set()

    async def answered(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def take(self, op: str, key: str) -> Any:
        return self._answers.get(op, {}).get(key)

    def whole_stack(self) -> str:
        """Return the stacks of the last observation as they were written."""
        return str(self.take("stack", "text") or "") or self._stack or self.signalled_stack()

    def signalled_stack(self) -> str:
        raw = os.pread(self.stacks, RAW_STACK_BYTES, 0)
        return raw.decode(errors="replace")

    def close(self) -> None:
        self.lines.close()
        os.close(self.stacks)


async def observe(
    queries: Mapping[int, RankQueries], unfinished: AbstractSet[int]
) -> tuple[dict[int, RankObservation], str]:
    """Return what each rank does, with stacks of unfinished ones, and a problem with reading recorders, if any."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    for rank, query in queries.items():
        query.ask({"op": "look", "stack": rank in unfinished}, "trace")
    silent = await _silent(queries, SIGNAL_SECONDS)
    for rank in silent & unfinished:
        with contextlib.suppress(ProcessLookupError):
            os.kill(queries[rank].pid, signal.SIGUSR1)
    samples: dict[int, list[Threads]] = {rank: [] for rank in silent}
    while silent and loop.time() < started + STARVED_SECONDS:
        for rank in silent:
            samples[rank].append(kernel_states.threads(queries[rank].pid))
        silent = {rank for rank in silent if not queries[rank].has_answered}
        if not any(_may_answer(queries[rank], samples[rank], loop.time() - started) for rank in silent):
            break
        await asyncio.sleep(POLL_SECONDS)
    found = {
        rank: _observation(query, samples.get(rank, []), is_unfinished=rank in unfinished)
        for rank, query in queries.items()
    }
    problem = next((text for query in queries.values() if (text := query.take("trace", "problem"))), "")
    return found, str(problem)


async def _silent(queries: Mapping[int, RankQueries], seconds: float) -> set[int]:
    answers = {rank: asyncio.ensure_future(query.answered(seconds)) for rank, query in queries.items()}
    return {rank for rank, answer in answers.items() if not await answer}


def _may_answer(query: RankQueries, samples: Sequence[Threads], seconds: float) -> bool:
    state = kernel_states.read(query.pid).letter
    if state in (*kernel_states.ENDED, *kernel_states.STOPPED):
        return False
    if seconds < LOOK_SECONDS or len(samples) < SAMPLES:
        return True
    return query.has_watcher(samples) and kernel_states.is_starved(samples, query.thread)


def _observation(query: RankQueries, samples: Sequence[Threads], *, is_unfinished: bool) -> RankObservation:
    text = str(query.take("stack", "text") or "") or (query.signalled_stack() if is_unfinished else "")
    silent, is_excused = "", False
    if not query.has_answered:
        process, has_watcher = kernel_states.read(query.pid), query.has_watcher(samples)
        is_starved = has_watcher and kernel_states.is_starved(samples, query.thread)
        silent = kernel_states.describe(process, has_watcher=has_watcher, is_starved=is_starved)
        is_excused = not kernel_states.is_proof(process, has_watcher=has_watcher, is_starved=is_starved)
    return RankObservation(
        stack=observation.tidy(text, STACK_BYTES) if is_unfinished else "",
        place=observation.place(text) if is_unfinished else observation.StackPlace(),
        silent=silent,
        is_excused=is_excused,
        trace=_trace(query.take("trace", "trace")),
    )


def _trace(data: Any) -> Trace | None:
    try:
        return None if data is None else Trace.from_json(data)
    except (ValueError, TypeError, KeyError, IndexError):  # test code may have written it
        return None
