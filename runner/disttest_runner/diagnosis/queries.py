"""The agent's end of a rank's watcher, and how all ranks of a node are asked at once within a fraction of a second."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from disttest_runner.diagnosis import stacks
from disttest_runner.diagnosis.flight_recorder import Trace
from disttest_runner.diagnosis.observation import STACK_BYTES, RankObservation
from disttest_runner.linux import kernel_states
from disttest_runner.linux.kernel_states import Threads
from disttest_runner.protocol.wire import LineProtocol, Message, WireError, unpack

SIGNAL_SECONDS = 0.1  # without an answer: then the signal handler writes the stacks, which needs no interpreter lock
LOOK_SECONDS = 0.3  # beyond it a rank whose watcher sleeps cannot answer
SAMPLES = 10  # looks at the threads of a silent rank, at least
STARVED_SECONDS = 2.0  # for a rank that would answer if it got a processor
POLL_SECONDS = 0.02
RAW_STACK_BYTES = 256 << 10
LINE_BYTES = 16 << 20  # a whole dump


@dataclass(slots=True)
class RankQueries:
    """Of one rank. `stacks` is a memory file that the rank's signal handler writes to."""

    lines: LineProtocol
    stacks: int
    pid: int = 0
    thread: int = 0  # of the watcher, in the kernel's count
    _answers: dict[str, Message] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _wanted: str = ""
    _stack: str = ""

    @classmethod
    async def open(cls, name: str) -> tuple["RankQueries", list[int]]:
        """And the descriptors that its rank gets, which are the caller's to close: socket, file for stacks."""
        mine, its = socket.socketpair()
        mine.setblocking(False)
        loop = asyncio.get_running_loop()
        answered: list[Callable[[bytes], None]] = []
        _, lines = await loop.create_connection(
            lambda: LineProtocol(lambda _, raw: answered[0](raw), lambda _: None, LINE_BYTES), sock=mine
        )
        witness = cls(lines, os.memfd_create(f"stacks-{name}"))
        answered.append(witness._on_line)
        return witness, [its.detach(), os.dup(witness.stacks)]

    def ask(self, message: Message, answer: str) -> None:
        """Forget what came before; `answer` is the last message that is wanted."""
        self._stack = str(self.take("stack", "text") or self._stack)
        self._answers, self._wanted = {}, answer
        self._changed.clear()
        self.lines.send(message)

    def forget(self) -> None:
        """What was answered, which may be large."""
        self._stack, self._answers = self.whole_stack(), {}

    def _on_line(self, raw: bytes) -> None:
        """From a process that test code has to itself: what makes no sense is no answer."""
        with contextlib.suppress(WireError, KeyError, ValueError, TypeError):
            message = unpack(raw)
            if message["op"] == "hello":
                self.thread = int(message["thread"])
                return
            self._answers[message["op"]] = message
            if message["op"] == self._wanted:
                self._changed.set()

    def has_watcher(self, samples: Sequence[Threads]) -> bool:
        """Whether the thread that would answer is there."""
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
        """As it was written at the last look, untidied."""
        return str(self.take("stack", "text") or "") or self._stack or self.signalled_stack()

    def signalled_stack(self) -> str:
        raw = os.pread(self.stacks, RAW_STACK_BYTES, 0)
        return raw.decode(errors="replace")

    def close(self) -> None:
        self.lines.close()
        os.close(self.stacks)


async def look(
    witnesses: Mapping[int, RankQueries], unfinished: AbstractSet[int]
) -> tuple[dict[int, RankObservation], str]:
    """What each rank does, with stacks of those that have not finished; and what a recorder's reader complained of."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    for rank, witness in witnesses.items():
        witness.ask({"op": "look", "stack": rank in unfinished}, "trace")
    silent = await _silent(witnesses, SIGNAL_SECONDS)
    for rank in silent & unfinished:
        with contextlib.suppress(ProcessLookupError):
            os.kill(witnesses[rank].pid, signal.SIGUSR1)
    samples: dict[int, list[Threads]] = {rank: [] for rank in silent}
    while silent and loop.time() < started + STARVED_SECONDS:
        for rank in silent:
            samples[rank].append(kernel_states.threads(witnesses[rank].pid))
        silent = {rank for rank in silent if not witnesses[rank].has_answered}
        if not any(_may_answer(witnesses[rank], samples[rank], loop.time() - started) for rank in silent):
            break
        await asyncio.sleep(POLL_SECONDS)
    found = {
        rank: _seen(witness, samples.get(rank, []), is_unfinished=rank in unfinished)
        for rank, witness in witnesses.items()
    }
    problem = next((text for witness in witnesses.values() if (text := witness.take("trace", "problem"))), "")
    return found, str(problem)


async def _silent(witnesses: Mapping[int, RankQueries], seconds: float) -> set[int]:
    """Those that have not answered within a time."""
    answers = {rank: asyncio.ensure_future(witness.answered(seconds)) for rank, witness in witnesses.items()}
    return {rank for rank, answer in answers.items() if not await answer}


def _may_answer(witness: RankQueries, samples: Sequence[Threads], seconds: float) -> bool:
    """Whether it is worth waiting for this one."""
    state = kernel_states.read(witness.pid).letter
    if state in (*kernel_states.ENDED, *kernel_states.STOPPED):
        return False
    if seconds < LOOK_SECONDS or len(samples) < SAMPLES:
        return True
    return witness.has_watcher(samples) and kernel_states.is_starved(samples, witness.thread)


def _seen(witness: RankQueries, samples: Sequence[Threads], *, is_unfinished: bool) -> RankObservation:
    text = str(witness.take("stack", "text") or "") or (witness.signalled_stack() if is_unfinished else "")
    silent, is_excused = "", False
    if not witness.has_answered:
        process, has_watcher = kernel_states.read(witness.pid), witness.has_watcher(samples)
        is_starved = has_watcher and kernel_states.is_starved(samples, witness.thread)
        silent = kernel_states.describe(process, has_watcher=has_watcher, is_starved=is_starved)
        is_excused = not kernel_states.is_proof(process, has_watcher=has_watcher, is_starved=is_starved)
    return RankObservation(
        stack=stacks.tidy(text, STACK_BYTES) if is_unfinished else "",
        place=stacks.place(text) if is_unfinished else stacks.StackPlace(),
        silent=silent,
        is_excused=is_excused,
        trace=_trace(witness.take("trace", "trace")),
    )


def _trace(data: Any) -> Trace | None:
    try:
        return None if data is None else Trace.from_json(data)
    except (ValueError, TypeError, KeyError, IndexError):  # test code has written it
        return None
