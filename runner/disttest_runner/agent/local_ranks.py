"""The ranks of one node: started, told of cases, gathered, killed. One message a case goes up."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from disttest_contract import limits
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results import case_result
from disttest_contract.text import numbers
from disttest_runner.agent import accelerator
from disttest_runner.agent.gpu_memory import GpuMemory
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.diagnosis import queries
from disttest_runner.diagnosis.hang_dumps import HangDumps
from disttest_runner.diagnosis.queries import RankQueries
from disttest_runner.linux import processes
from disttest_runner.linux.resource_limits import OutOfMemory
from disttest_runner.output.log import Log
from disttest_runner.protocol.wire import LineProtocol, Message, WireError, unpack
from disttest_runner.results import measurements
from disttest_runner.results.blame import IDLE
from disttest_runner.zygote.zygote_client import (
    ZygoteClient,
    ZygoteEndedError,
    ZygoteEvents,
    ZygotePool,
    ZygoteProcess,
    read_lines,
)

DIGEST_CHARACTERS = 64
WORDS = frozenset((*Outcome, IDLE))


def collected(message: Message) -> Message:
    """Raises KeyError or TypeError for what is not whole."""
    ids = message["ids"]
    if not isinstance(ids, list) or not all(isinstance(case_id, str) for case_id in ids):
        raise TypeError("the ids of cases are texts")
    digest = str(message["digest"])[:DIGEST_CHARACTERS]
    return {**message, "digest": digest, "error": _end(message["error"]), "note": _end(message["note"])}


def done(message: Message) -> Message:
    """Raises KeyError, TypeError or ValueError for what is no outcome or no measurement."""
    if message["outcome"] not in WORDS:
        raise ValueError(f"{message['outcome']!r:.40} is no outcome")
    if not 0 <= numbers.real(message["seconds"]) <= limits.NUMBER:  # a report with it would be read by nobody
        raise ValueError(f"a case lasted {message['seconds']} s")
    if "measured" in message:
        measurements.read(message["measured"])
    if "log" in message:
        message["log"] = str(message["log"])[-limits.RANK_LOG_BYTES :]
    message["message"] = _end(message["message"])
    return message


def rank_text(message: Message) -> list[str]:
    """What goes up of a rank's result: outcome, message and its log, if it has one."""
    return [message["outcome"], message["message"], *([message["log"]] if "log" in message else [])]


def _end(text: Any) -> str:
    """A rank cuts what it says, but need not; the end says what went wrong."""
    return str(text)[-limits.MESSAGE_BYTES :]


# Beyond it a process sits in the kernel and cannot be killed. On a busy machine a debugger that still looks into it, or
# the release of its memory, has been seen to take 10 s.
KILL_SECONDS = 30


@dataclass(slots=True)
class Rank:
    pid: int
    lines: LineProtocol
    witness: RankQueries
    is_alive: bool = True


class LocalRanks:
    """`send` takes messages for the leader; `store_listener` gives the store's socket, on node 0 only."""

    def __init__(
        self,
        plan: RunPlan,
        zygote: ZygoteProcess,
        details: HangDumps,
        log: Log,
        send: Callable[[Message], None],
        broken: Callable[[str], None],
    ) -> None:
        self._plan, self._send, self._log, self._broken, self._details = plan, send, log, broken, details
        events = ZygoteEvents(self._on_warm, self._on_exited, self._on_lost, log.rank_output)
        self._nurseries = ZygotePool(plan, zygote, events)
        self._nursery: ZygoteClient | None = None  # of this generation
        self._gpu_memory = GpuMemory(accelerator.used_bytes if plan.backend == "nccl" else tuple)
        self._memory = OutOfMemory()
        self._somebody_left = asyncio.Event()
        self._ranks: dict[int, Rank] = {}
        self._generation = 0
        self._expected = 0  # ranks of this node
        self._case: int | None = None  # None: collecting
        self._heading = ""  # of the case, in the log; once a case, since ranks may write a million lines
        self._said: dict[int, Message] = {}
        self._ids: dict[str, list[str]] = {}  # digest -> what was collected
        self._suite = 0  # its index
        self._preparing: asyncio.Task[None] | None = None

    async def attach(self) -> None:
        await self._nurseries.attach(self._broken)

    # --- what the leader asks for

    async def start(self, orders: list[RankOrder], suite: int, listener: socket.socket | None) -> None:
        """A new generation; what is left of the last one ends first."""
        await self.kill()
        if problem := await self._gpu_memory.wait_until_back():
            self._broken(problem)
        self._generation, self._case, self._said, self._ids = orders[0].generation, None, {}, {}
        self._suite, self._expected, self._heading = suite, len(orders), ""
        try:
            nursery = self._nursery = await self._nurseries.of_suite(suite)
            for order in orders:
                await self._start_rank(nursery, order, listener if order.rank == 0 else None)
        except ZygoteEndedError as error:
            if suite == 0:  # the image is wrong, or the node; else the environment of this suite
                self._broken(str(error))
            ranks = [order.rank for order in orders]
            errors = {rank: str(error) for rank in ranks}
            self._tell({"op": "collected", "digests": {"": ranks}, "errors": errors, "ids": [], "note": ""})

    async def _start_rank(self, nursery: ZygoteClient, order: RankOrder, listener: socket.socket | None) -> None:
        mine, its = socket.socketpair()
        mine.setblocking(False)
        reading, writing = os.pipe()
        watcher, watched = await RankQueries.open(str(order.rank))
        descriptors = [its.fileno(), writing, *watched, *([listener.fileno()] if listener else [])]
        loop = asyncio.get_running_loop()
        await read_lines(reading, lambda line: self._on_output(order.rank, line))
        _, lines = await loop.create_connection(
            lambda: LineProtocol(lambda _, raw: self._on_rank(order.generation, order.rank, raw), lambda _: None),
            sock=mine,
        )
        try:
            pid = await nursery.fork(order, descriptors)
        finally:
            its.close()
            for descriptor in (writing, *watched):
                os.close(descriptor)
        watcher.pid = pid
        self._ranks[order.rank] = Rank(pid, lines, watcher)

    def run_case(self, raw: bytes, case: int) -> None:
        """The leader's line goes to the ranks as it came."""
        self._case, self._said, self._heading = case, {}, self._heading_of(case)
        line = raw + b"\n"
        for rank in self._ranks.values():
            rank.lines.write(line)

    async def stacks(self) -> None:
        """What is each rank doing? And what did those say that have finished?"""
        witnesses = self._witnesses()
        said = self._said if self._case is not None else {}
        seen, problem = await queries.look(witnesses, witnesses.keys() - self._said.keys())
        if problem:
            self._log.say(f"warning: {problem}")
        words = {number: rank_text(message) for number, message in said.items()}
        self._tell({"op": "stacks", "seen": {rank: one.to_json() for rank, one in seen.items()}, "said": words})

    async def details(self, message: Message) -> None:
        """What takes longer to find out about a hang."""
        self._tell(await self._details.gather(message, self._witnesses()))

    def _witnesses(self) -> dict[int, RankQueries]:
        return {number: rank.witness for number, rank in self._ranks.items() if rank.is_alive}

    def ids(self, wanted: str) -> None:
        self._tell({"op": "ids", "ids": self._ids.get(wanted)})

    async def kill(self) -> bool:
        """Returns whether all are gone; a process that SIGKILL does not end is stuck in the kernel."""
        for rank in self._ranks.values():
            if rank.is_alive:
                processes.kill_rank(rank.pid)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KILL_SECONDS
        while any(rank.is_alive for rank in self._ranks.values()) and loop.time() < deadline:
            self._somebody_left.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._somebody_left.wait()
            except TimeoutError:
                break
        stuck = [rank.pid for rank in self._ranks.values() if rank.is_alive]
        for rank in self._ranks.values():
            rank.lines.close()
            rank.witness.close()
        self._ranks = {}
        for left in processes.kill_orphans():
            self._log.say(f"a process that a case had left behind was killed: {left}")
        if stuck:
            self._broken(
                f"processes {stuck} were killed but did not end within {KILL_SECONDS} s: they hang in the kernel"
            )
        return not stuck

    def end(self) -> None:
        """Kill everything without waiting."""
        for rank in self._ranks.values():
            if rank.is_alive:
                processes.kill_rank(rank.pid)
        self._nurseries.end()

    # --- what comes from below

    def _on_output(self, rank: int, line: bytes) -> None:
        self._log.rank_output(f"rank {rank}", line, heading=self._heading)

    def _heading_of(self, case: int) -> str:
        """Return the case's heading. Ranks that had collected other cases would have ended the suite."""
        ids = next(iter(self._ids.values()), ())
        return case_result.heading(self._plan.suites[self._suite].name, ids[case % len(ids)]) if ids else ""

    def _tell(self, message: Message) -> None:
        self._send({**message, "generation": self._generation, "case": self._case})

    def _on_lost(self, nursery: ZygoteClient) -> None:
        """The kernel ends ranks with their zygote; nobody is left who would tell."""
        if nursery is not self._nursery:
            return
        self._log.say("warning: the zygote was killed, and its ranks with it")
        for number, rank in self._ranks.items():
            if rank.is_alive:
                processes.kill_rank(rank.pid)
                self._on_exited(number, -signal.SIGKILL)

    def _on_warm(self, message: Message) -> None:
        self._details.versions = message["versions"]
        self._send({"op": "warm", "seconds": message["seconds"], "versions": message["versions"]})

    def _on_exited(self, rank: int, status: int) -> None:
        if rank in self._ranks:
            self._ranks[rank].is_alive = False
            self._somebody_left.set()
            message = {"op": "exited", "rank": rank, "status": status}
            if status == -signal.SIGKILL and self._memory.happened():
                message["why"] = "the container was out of memory and the kernel chose this process"
            self._tell(message)

    def _on_rank(self, generation: int, rank: int, raw: bytes) -> None:
        """Test code shares the process that wrote this line: what makes no sense is dropped, and the case runs out."""
        if generation != self._generation:
            return
        try:
            message = unpack(raw)
            if message["op"] == "collected" and self._case is None:
                message = collected(message)
                self._ids[message["digest"]] = message["ids"]
                self._said[rank] = message
                self._collected()
            elif message["op"] == "done" and message["case"] == self._case:
                message = done(message)
                self._said[rank] = message
                self._done(rank, message)
        except (WireError, KeyError, ValueError, TypeError) as error:
            self._log.say(f"warning: rank {rank} sent something that is not a result ({error!r:.200}); ignored")

    def _collected(self) -> None:
        if len(self._said) < self._expected:
            return
        digests: dict[str, list[int]] = {}
        for rank, message in self._said.items():
            digests.setdefault(message["digest"], []).append(rank)
        errors = {rank: message["error"] for rank, message in self._said.items() if message["error"]}
        ids = self._said[0]["ids"] if 0 in self._said else None
        note = next((message["note"] for message in self._said.values() if message["note"]), "")
        self._tell({"op": "collected", "digests": digests, "errors": errors, "ids": ids, "note": note})
        self._preparing = asyncio.get_running_loop().create_task(self._nurseries.prepare_for_later(self._suite))

    def _done(self, rank: int, message: dict[str, Any]) -> None:
        if len(self._said) < self._expected:
            if (
                message["outcome"] in BAD
            ):  # its peers may wait for it in a collective: the leader must know before they end
                self._tell({"op": "early", "rank": rank, "said": rank_text(message)})
            return
        outcomes = {said["outcome"] for said in self._said.values()}
        up: dict[str, Any] = {"op": "done", "seconds": max(float(said["seconds"]) for said in self._said.values())}
        if len(outcomes) == 1 and not outcomes & BAD:  # one word for all of them
            up["all"] = [outcomes.pop(), message["message"]]
        else:
            up["ranks"] = {number: rank_text(said) for number, said in self._said.items()}
        measured = {number: said["measured"] for number, said in self._said.items() if "measured" in said}
        if measured:
            up["measured"] = measured
        if any("stale" in said for said in self._said.values()):
            up["stale"] = True
        self._tell(up)
