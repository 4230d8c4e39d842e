"""The ranks of one node: starts them, passes cases on to them, merges their results, and kills them."""

import asyncio
import dataclasses
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from disttest_contract import limits
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import BAD, Outcome
from disttest_contract.results import case_result
from disttest_contract.results.network_transport import TransportFacts
from disttest_contract.text import json_values
from disttest_runner.agent import accelerator
from disttest_runner.agent.nccl_logs import NcclLogs
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.diagnosis.hang_dumps import HangDumps
from disttest_runner.diagnosis.queries import RankQueries, observe
from disttest_runner.linux import processes
from disttest_runner.linux.resource_limits import OutOfMemory
from disttest_runner.output.log import Log
from disttest_runner.protocol.wire import LineProtocol, Message, WireError, unpack
from disttest_runner.results import measurements
from disttest_runner.results.blame import ABORTED, IDLE, AbortCause
from disttest_runner.zygote.zygote_client import (
    ZygoteClient,
    ZygoteEndedError,
    ZygoteEvents,
    ZygotePool,
    ZygoteProcess,
    read_lines,
)

DIGEST_CHARACTERS = 64
SETTINGS, SETTING_CHARACTERS = 32, 256  # of a suite; of a name or value
WORDS = frozenset((*Outcome, IDLE))
WITHOUT_NCCL = "gloo"


def checked_collection(message: Message) -> Message:
    """Return a checked message on what a rank collected. Raises KeyError or TypeError."""
    ids = message["ids"]
    if not isinstance(ids, list) or not all(isinstance(case_id, str) for case_id in ids):
        raise TypeError("case IDs must be strings")
    digest = str(message["digest"])[:DIGEST_CHARACTERS]
    settings = {
        str(name)[:SETTING_CHARACTERS]: str(value)[:SETTING_CHARACTERS]
        for name, value in list(dict(message["settings"]).items())[:SETTINGS]
    }
    texts = {"error": _end(message["error"]), "note": _end(message["note"])}
    return {**message, "digest": digest, **texts, "settings": settings}


def checked_result(message: Message) -> Message:
    """Return a rank's checked result. Raises KeyError, TypeError or ValueError."""
    if message["outcome"] not in WORDS:
        raise ValueError(f"{message['outcome']!r:.40} is not an outcome")
    if not 0 <= json_values.real(message["seconds"]) <= limits.NUMBER:  # no reader would accept a report with it
        raise ValueError(f"a case lasted {message['seconds']} s")
    if "measured" in message:
        measurements.read(message["measured"])
    if "log" in message:
        message["log"] = str(message["log"])[-limits.RANK_LOG_BYTES :]
    message["message"] = _end(message["message"])
    return message


def rank_text(message: Message) -> list[str]:
    """Return what the leader needs of a rank's result: outcome, message, and log if there is one."""
    return [message["outcome"], message["message"], *([message["log"]] if "log" in message else [])]


def _end(text: Any) -> str:
    """Cut a text that the rank may not have cut; its end has the error."""
    return str(text)[-limits.MESSAGE_BYTES :]


# After that a process is stuck in the kernel. On a busy machine a debugger that is still attached, or the release of
# memory, has taken 10 s.
KILL_SECONDS = 30


MARGIN_BYTES = 512 << 20  # what a driver may keep for itself
RELEASE_SECONDS = 30.0
POLL_SECONDS = 0.02


class MemoryRelease:
    """Waits until the accelerators have freed the memory of the last generation, before the next one starts."""

    def __init__(self, used_bytes: Callable[[], Mapping[str, int]]) -> None:
        self._used_bytes = used_bytes  # by the name of a GPU
        self._before: Mapping[str, int] | None = None

    async def wait(self, seconds: float = RELEASE_SECONDS) -> str:
        """Return a problem, if there is one, while no rank is alive. The first call only records what is in use."""
        now = await asyncio.to_thread(self._used_bytes) if self._before != {} else {}
        if self._before is None or now.keys() != self._before.keys():
            self._before = now
            return ""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while kept := {gpu: used for gpu, used in now.items() if used > self._before.get(gpu, used) + MARGIN_BYTES}:
            if loop.time() > deadline:
                gpu, used = next(iter(kept.items()))
                return (
                    f"{gpu} still has {used >> 20} MiB in use {seconds:.0f} s after its ranks ended "
                    f"({self._before[gpu] >> 20} MiB before they started). "
                    "Another process uses the GPU, or the driver did not release the memory"
                )
            await asyncio.sleep(POLL_SECONDS)
            now = await asyncio.to_thread(self._used_bytes)
        return ""


# After the end of an aborted process, for its last lines, which have the cause: they come from another pipe.
LAST_LINES_SECONDS = 0.1


@dataclass(slots=True)
class Rank:
    pid: int
    lines: LineProtocol
    queries: RankQueries
    abort_cause: AbortCause
    is_alive: bool = True


class LocalRanks:
    """`send` sends a message to the leader; `broken` reports that this node cannot continue."""

    def __init__(
        self,
        plan: RunPlan,
        zygote: ZygoteProcess,
        hang_dumps: HangDumps,
        log: Log,
        send: Callable[[Message], None],
        broken: Callable[[str], None],
    ) -> None:
        self._plan, self._send, self._log, self._broken, self._hang_dumps = plan, send, log, broken, hang_dumps
        events = ZygoteEvents(self._on_warm, self._on_exited, self._on_lost, log.rank_output)
        self._zygotes = ZygotePool(plan, zygote, events)
        self._zygote: ZygoteClient | None = None  # of this generation
        self._memory_release = MemoryRelease(partial(accelerator.of_backend(plan.backend).used_bytes, os.environ))
        self._memory = OutOfMemory()
        self._rank_exited = asyncio.Event()
        self._ranks: dict[int, Rank] = {}
        self._generation = 0
        self._expected = 0  # ranks of this node
        self._case: int | None = None  # None: collecting
        self._heading = ""  # of the case, in the log; once a case, since ranks may write a million lines
        self._received: dict[int, Message] = {}  # rank -> what it collected, or its result of the case
        self._ids: dict[str, list[str]] = {}  # digest -> what was collected
        self._suite = 0  # its index
        self._nccl_logs = NcclLogs(
            self._on_output, self._on_transport, nodes=plan.nodes, is_used=plan.backend != WITHOUT_NCCL
        )
        self._is_killing = False  # the ranks end because of that
        self._preparing: asyncio.Task[None] | None = None

    async def attach(self) -> None:
        await self._zygotes.attach(self._broken)

    async def start(self, orders: list[RankOrder], suite: int, listener: socket.socket | None) -> None:
        await self.kill()
        if problem := await self._memory_release.wait():
            self._broken(problem)
        self._generation, self._case, self._received, self._ids = orders[0].generation, None, {}, {}
        self._suite, self._expected, self._heading = suite, len(orders), ""
        self._is_killing = False
        self._nccl_logs.start(self._generation)
        try:
            zygote = self._zygote = await self._zygotes.of_suite(suite)
            for each in orders:
                order = dataclasses.replace(each, nccl_log=self._nccl_logs.pattern(each.rank))
                await self._start_rank(zygote, order, listener if order.rank == 0 else None)
        except ZygoteEndedError as error:
            if suite == 0:  # the image is wrong, or the node; else the environment of this suite
                self._broken(str(error))
            ranks = [order.rank for order in orders]
            errors = {rank: str(error) for rank in ranks}
            message = {"op": "collected", "digests": {"": ranks}, "errors": errors, "ids": [], "note": ""}
            self._report({**message, "settings": {}})

    async def _start_rank(self, zygote: ZygoteClient, order: RankOrder, listener: socket.socket | None) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        reading, writing = os.pipe()
        queries, inherited = await RankQueries.open(str(order.rank))
        descriptors = [theirs.fileno(), writing, *inherited, *([listener.fileno()] if listener else [])]
        loop = asyncio.get_running_loop()
        abort_cause = AbortCause()

        def on_line(line: bytes) -> None:
            abort_cause.read(line)
            self._on_output(order.rank, line)

        await read_lines(reading, on_line)
        _, lines = await loop.create_connection(
            lambda: LineProtocol(lambda _, raw: self._on_rank(order.generation, order.rank, raw), lambda _: None),
            sock=ours,
        )
        try:
            pid = await zygote.fork(order, descriptors)
        finally:
            theirs.close()
            for descriptor in (writing, *inherited):
                os.close(descriptor)
        queries.pid = pid
        self._ranks[order.rank] = Rank(pid, lines, queries, abort_cause)

    def run_case(self, raw: bytes, case: int) -> None:
        """Pass the leader's line on to the ranks unchanged."""
        self._case, self._received, self._heading = case, {}, self._heading_of(case)
        line = raw + b"\n"
        for rank in self._ranks.values():
            rank.lines.write(line)

    async def stacks(self) -> None:
        """Report what each rank is doing, and the results of those that have finished."""
        queries = self._queries()
        results = self._received if self._case is not None else {}
        seen, problem = await observe(queries, queries.keys() - self._received.keys())
        if problem:
            self._log.say(f"warning: {problem}")
        words = {number: rank_text(message) for number, message in results.items()}
        logs = {rank: text for rank in queries if rank not in results and (text := self._nccl_logs.quote(rank))}
        states = {rank: one.to_json() for rank, one in seen.items()}
        self._report({"op": "stacks", "seen": states, "said": words, "logs": logs})

    async def details(self, message: Message) -> None:
        self._report(await self._hang_dumps.gather(message, self._queries()))

    def _alive(self) -> dict[int, Rank]:
        return {number: rank for number, rank in self._ranks.items() if rank.is_alive}

    def _queries(self) -> dict[int, RankQueries]:
        return {number: rank.queries for number, rank in self._alive().items()}

    def ids(self, wanted: str) -> None:
        self._report({"op": "ids", "ids": self._ids.get(wanted)})

    async def kill(self) -> bool:
        """Kill all ranks; return whether all ended. A process that SIGKILL does not end is stuck in the kernel."""
        self._is_killing = True
        for rank in self._alive().values():
            processes.kill_rank(rank.pid)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + KILL_SECONDS
        while self._alive() and loop.time() < deadline:
            self._rank_exited.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._rank_exited.wait()
            except TimeoutError:
                break
        stuck = [rank.pid for rank in self._alive().values()]
        for rank in self._ranks.values():
            rank.lines.close()
            rank.queries.close()
        self._ranks = {}
        await self._keep_nccl_logs()
        for left in processes.kill_orphans():
            self._log.say(f"killed a process that a case left running: {left}")
        if stuck:
            self._broken(
                f"processes {stuck} did not exit within {KILL_SECONDS} s after SIGKILL: they hang in the kernel"
            )
        return not stuck

    async def _keep_nccl_logs(self) -> None:
        await self._hang_dumps.keep(self._nccl_logs.end(is_kept=bool(self._plan.artifacts)))

    async def close(self) -> None:
        """Keep and remove the files of ranks that have ended."""
        await self._keep_nccl_logs()
        self._nccl_logs.remove()

    def end(self) -> None:
        """Kill everything without waiting."""
        self._is_killing = True
        for rank in self._alive().values():
            processes.kill_rank(rank.pid)
        self._zygotes.end()

    def _on_output(self, rank: int, line: bytes) -> None:
        self._log.rank_output(f"rank {rank}", line, heading=self._heading)

    def _on_transport(self, found: Mapping[int, TransportFacts]) -> None:
        self._report({"op": "transport", "ranks": {rank: facts.to_json() for rank, facts in found.items()}})

    def _heading_of(self, case: int) -> str:
        """Return the case's heading; all ranks have collected the same cases."""
        ids = next(iter(self._ids.values()), ())
        return case_result.heading(self._plan.suites[self._suite].name, ids[case % len(ids)]) if ids else ""

    def _report(self, message: Message) -> None:
        self._send({**message, "generation": self._generation, "case": self._case})

    def _on_lost(self, zygote: ZygoteClient) -> None:
        """The kernel ends ranks with their zygote, which can no longer report their exits."""
        if zygote is not self._zygote:
            return
        self._log.say("warning: the zygote was killed, and its ranks with it")
        for number, rank in self._alive().items():
            processes.kill_rank(rank.pid)
            self._on_exited(number, -signal.SIGKILL)

    def _on_warm(self, message: Message) -> None:
        self._hang_dumps.versions = message["versions"]
        self._send({"op": "warm", "seconds": message["seconds"], "versions": message["versions"]})

    def _on_exited(self, rank: int, status: int) -> None:
        if rank in self._ranks:
            self._ranks[rank].is_alive = False
            self._rank_exited.set()
            report = partial(self._report_exit, self._generation, rank, status, self._ranks[rank].abort_cause)
            if status == ABORTED:
                asyncio.get_running_loop().call_later(LAST_LINES_SECONDS, report)
            else:
                report()

    def _report_exit(self, generation: int, rank: int, status: int, abort_cause: AbortCause) -> None:
        if generation != self._generation:
            return
        message = {"op": "exited", "rank": rank, "status": status}
        if status == -signal.SIGKILL and self._memory.happened():
            message["why"] = "the container was out of memory and the kernel killed this process"
        elif status == ABORTED and abort_cause.text:
            message["why"] = abort_cause.text
        if not self._is_killing and (text := self._nccl_logs.quote(rank)):
            message["log"] = text
        self._report(message)

    def _on_rank(self, generation: int, rank: int, raw: bytes) -> None:
        """Ignore an invalid line, which test code may have written: the case then ends at its deadline."""
        if generation != self._generation:
            return
        try:
            message = unpack(raw)
            if message["op"] == "collected" and self._case is None:
                message = checked_collection(message)
                self._ids[message["digest"]] = message["ids"]
                self._received[rank] = message
                self._collected()
            elif message["op"] == "done" and message["case"] == self._case:
                message = self._with_nccl_log(rank, checked_result(message))
                self._received[rank] = message
                self._done(rank, message)
        except (WireError, KeyError, ValueError, TypeError) as error:
            self._log.say(f"warning: rank {rank} sent an invalid message, which is ignored ({error!r:.200})")

    def _with_nccl_log(self, rank: int, message: Message) -> Message:
        """Add the end of NCCL's log to the result of a rank that failed. The log is read before the leader knows it."""
        text = self._nccl_logs.quote(rank) if message["outcome"] in BAD else ""
        if len(self._received) + 1 >= self._expected:
            self._nccl_logs.read()
        log = "\n".join(part for part in (message.get("log", ""), text) if part)
        return {**message, "log": limits.cut_middle(log, limits.RANK_LOG_BYTES)} if text else message

    def _collected(self) -> None:
        if len(self._received) < self._expected:
            return
        digests: dict[str, list[int]] = {}
        for rank, message in self._received.items():
            digests.setdefault(message["digest"], []).append(rank)
        errors = {rank: message["error"] for rank, message in self._received.items() if message["error"]}
        ids = self._received[0]["ids"] if 0 in self._received else None
        note = next((message["note"] for message in self._received.values() if message["note"]), "")
        settings = self._received[min(self._received)]["settings"]
        message = {"op": "collected", "digests": digests, "errors": errors, "ids": ids, "note": note}
        self._report({**message, "settings": settings})
        self._preparing = asyncio.get_running_loop().create_task(self._zygotes.prepare_for_later(self._suite))

    def _done(self, rank: int, message: dict[str, Any]) -> None:
        if len(self._received) < self._expected:
            if message["outcome"] in BAD:  # its peers may wait for it in a collective: the leader must know now
                self._report({"op": "early", "rank": rank, "said": rank_text(message)})
            return
        outcomes = {one["outcome"] for one in self._received.values()}
        up: dict[str, Any] = {"op": "done", "seconds": max(float(one["seconds"]) for one in self._received.values())}
        if len(outcomes) == 1 and not outcomes & BAD:
            up["all"] = [outcomes.pop(), message["message"]]
        else:
            up["ranks"] = {number: rank_text(one) for number, one in self._received.items()}
        measured = {number: one["measured"] for number, one in self._received.items() if "measured" in one}
        if measured:
            up["measured"] = measured
        if any("stale" in one for one in self._received.values()):
            up["stale"] = True
        self._report(up)
