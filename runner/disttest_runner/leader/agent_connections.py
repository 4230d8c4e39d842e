"""The leader's connections to all agents: joining, requests to all of them, and their replies until a deadline."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.network_transport import TransportFacts
from disttest_contract.results.preflight import NodeFacts
from disttest_runner.leader.replies import PendingRequest, Replies, has_failed
from disttest_runner.protocol import wire
from disttest_runner.protocol.join_protocol import Hello, JoinRefusedError, RunEnd, check_hello
from disttest_runner.protocol.wire import Heartbeat, LineProtocol, Message, WireError
from disttest_runner.results import transports
from disttest_runner.results.blame import RankReport, WaitEnd

GRACE_SECONDS = 3.0  # for the peers of a rank that failed: they may wait for it in a collective
EXIT_SECONDS = 0.5  # after the end of a rank, for those of others with the same cause: a busy node is late
HELLO_SECONDS = 10.0


class InterruptedRunError(Exception):
    """The run cannot continue. `replies` are those that the last request had received."""

    def __init__(self, run_end: RunEnd, replies: Replies | None = None) -> None:
        super().__init__(run_end.message)
        self.run_end, self.replies = run_end, replies


class AgentConnections:
    """`run_end` is set once, by the first cause that makes the run impossible; later requests raise it.

    One last request, for what ranks are doing, is still possible.
    """

    def __init__(
        self, plan: RunPlan, nonce: str, silence_seconds: float, log: Callable[[str], None], *, max_strangers: int
    ) -> None:
        self.plan, self._nonce, self._log = plan, nonce, log
        self.on_joined: Callable[[], None] = lambda: None
        self.joined: dict[int, Hello] = {}
        self.versions: dict[int, dict[str, str]] = {}
        self._clocks: dict[int, tuple[float, float]] = {}  # seconds: ahead of ours, round trip
        self._welcomed: dict[int, float] = {}  # when, since the epoch
        self.heartbeat = Heartbeat(
            silence_seconds,
            lambda: self.broadcast(wire.ALIVE),
            lambda index, what: self._interrupt_by(index, Reason.GANG_LOST, f"the agent {what}"),
        )
        self.exits: dict[int, int] = {}  # ranks of this generation whose process ended
        self.exit_causes: dict[int, str] = {}  # why, where their agent reported it
        self.exit_logs: dict[int, str] = {}  # the end of NCCL's log, where there is one
        self.transports: dict[int, TransportFacts] = {}  # rank -> what it used so far
        self.run_end: RunEnd | None = None
        self._agents: dict[int, LineProtocol] = {}
        self._lost: set[int] = set()  # node indexes
        self._strangers: dict[LineProtocol, asyncio.TimerHandle] = {}  # not authenticated yet; the oldest first
        self._max_strangers = max_strangers
        self._refusals_logged = 0
        self.all_joined = asyncio.Event()
        self.all_warm = asyncio.Event()  # all agents have reported their versions
        self._generation = 0
        self._request: PendingRequest | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def accept(self) -> LineProtocol:
        """Return the protocol of a new connection, for asyncio's create_server."""
        lines = LineProtocol(self._on_first_line, self._forget_stranger, wire.HELLO_BYTES)
        if len(self._strangers) >= self._max_strangers:  # an agent sends a line at once, so it is not the oldest
            self._forget_stranger(next(iter(self._strangers)), is_closed=True)
        self._strangers[lines] = self._loop.call_later(HELLO_SECONDS, lines.close)
        return lines

    def close_strangers(self) -> None:
        """Close unauthenticated connections because no file descriptors are left; an agent connects again."""
        for lines in list(self._strangers):
            self._forget_stranger(lines, is_closed=True)

    def _forget_stranger(self, lines: LineProtocol, *, is_closed: bool = False) -> None:
        if timer := self._strangers.pop(lines, None):
            timer.cancel()
        if is_closed:
            lines.close()

    def _on_first_line(self, lines: LineProtocol, raw: bytes) -> None:
        try:
            hello = check_hello(wire.unpack(raw), plan=self.plan, nonce=self._nonce, joined=self.joined)
        except (JoinRefusedError, WireError) as error:
            if self._refusals_logged < 10:
                self._refusals_logged += 1
                self._log(f"a connection was refused: {error}")
            lines.send({"op": "refused", "message": str(error)})
            lines.close()
            return
        self._forget_stranger(lines)
        index = hello.node_index
        self.joined[index], self._agents[index] = hello, lines
        lines.serve(partial(self._on_line, index), lambda _: self._on_lost(index), wire.LINE_BYTES)
        lines.send({"op": "welcome"})
        self._welcomed[index] = time.time()
        self.heartbeat.reset(index)
        self.on_joined()
        if len(self.joined) == self.plan.nodes:
            self.all_joined.set()

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for `all_joined` or `all_warm`, or until the deadline. Raises InterruptedRunError."""
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        if self.run_end:
            raise InterruptedRunError(self.run_end)

    @property
    def facts(self) -> dict[int, NodeFacts]:
        found = {}
        for index, hello in sorted(self.joined.items()):
            offset, round_trip = self._clocks.get(index, (None, None))
            found[index] = dataclasses.replace(
                hello.facts,
                node_name=hello.node_name,
                clock_offset_seconds=offset,
                round_trip_seconds=round_trip,
                versions=self.versions.get(index, {}),
            )
        return found

    def broadcast(self, message: Message) -> None:
        raw = wire.pack(message)
        for lines in self._agents.values():
            lines.write(raw)

    async def ask(self, message: Message, *, reply: str, seconds: float, is_last: bool = False) -> Replies:
        """Send a request to all agents; a reply is a message with that op, of the same generation and case.

        Raises InterruptedRunError if the run ends, unless this is the last request.
        """
        if self.run_end and not is_last:
            raise InterruptedRunError(self.run_end)
        if message["op"] == "start":
            self._generation, self.exits, self.exit_causes, self.exit_logs = message["generation"], {}, {}, {}
        started = self._loop.time()
        request = self._request = PendingRequest(
            reply=reply,
            generation=self._generation,
            case=message.get("case"),
            deadline=started + seconds,
            done=self._loop.create_future(),
        )
        self._timer = self._loop.call_at(request.deadline, self._settle, WaitEnd.DEADLINE)
        self.broadcast(message)
        end = await request.done
        self._request = None
        self._timer.cancel()
        replies = Replies(
            end=end,
            seconds=self._loop.time() - started,
            by_node=request.by_node,
            early=request.early,
            before_exit=request.before_exit or frozenset(),
        )
        if self.run_end and not is_last:
            raise InterruptedRunError(self.run_end, replies)
        return replies

    def interrupt(self, run_end: RunEnd) -> None:
        """End the run as soon as possible; the first cause counts."""
        if self.run_end:
            return
        self.run_end = run_end
        self.all_joined.set()
        self.all_warm.set()
        self._settle(WaitEnd.INTERRUPTED)

    async def close(self, seconds: float) -> None:
        """Close all connections after what was written before has been sent."""
        for lines in [*self._agents.values(), *self._strangers]:
            lines.close()
        deadline = self._loop.time() + seconds
        while any(not lines.is_lost for lines in self._agents.values()) and self._loop.time() < deadline:  # noqa: ASYNC110 - many connections, one deadline
            await asyncio.sleep(0.005)

    def _settle(self, end: WaitEnd) -> None:
        if self._request and not self._request.done.done():
            self._request.done.set_result(end)

    def _settle_if_complete(self) -> bool:
        """Whether all agents have replied, except for those that are lost."""
        request = self._request
        replied = len(request.by_node.keys() | self._lost if self._lost else request.by_node) if request else 0
        if replied == self.plan.nodes:
            self._settle(WaitEnd.ALL)
        return replied == self.plan.nodes

    def _settle_soon(self, seconds: float, end: WaitEnd) -> None:
        """Wait at most `seconds` from now; a timer that ends sooner stays."""
        at = self._loop.time() + seconds
        if self._request and self._timer and at < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(at, self._settle, end)

    def _on_lost(self, index: int) -> None:
        self._lost.add(index)
        self._interrupt_by(index, Reason.GANG_LOST, "the connection to the agent broke")
        self._settle_if_complete()

    def _interrupt_by(self, index: int, reason: Reason, what: str, *, is_at_fault: bool = True) -> None:
        hello = self.joined[index]
        where = f"node index {index} (pod {hello.pod_name} on {hello.node_name})"
        at_fault = (index,) if is_at_fault else ()
        self.interrupt(RunEnd(Verdict.INFRA_FAILED, reason, f"{where}: {what}", at_fault=at_fault))

    def _on_line(self, index: int, _: LineProtocol, raw: bytes) -> None:
        message: dict[str, Any] = wire.unpack(raw)
        self.heartbeat.reset(index)
        match message["op"]:
            case "done":  # nearly all of them
                self._on_reply(index, "done", message)
            case "alive":
                pass
            case "clock":
                welcomed, now = self._welcomed[index], time.time()
                self._clocks[index] = (message["time"] - (welcomed + now) / 2, now - welcomed)
            case "warm":
                self.versions[index] = message["versions"]
                if len(self.versions) == self.plan.nodes:
                    self.all_warm.set()
            case "broken":
                self._interrupt_by(index, Reason.GANG_FAILED_TO_START, message["message"])
            case "transport":
                self._on_transport(message["ranks"])
            case "leaving":  # it was signalled: its node is not at fault
                what = f"the agent exited: {message['message']}"
                self._interrupt_by(index, Reason.GANG_LOST, what, is_at_fault=False)
            case "exited" if message["generation"] == self._generation:
                self._on_exited(message)
            case op:
                self._on_reply(index, op, message)

    def _on_exited(self, message: Message) -> None:
        rank = message["rank"]
        self.exits[rank] = message["status"]
        self.exit_causes |= {rank: str(message["why"])} if "why" in message else {}
        self.exit_logs |= {rank: str(message["log"])} if "log" in message else {}
        if self._request and self._request.reply in ("collected", "done"):
            self._request.record_exit()
            self._settle_soon(EXIT_SECONDS, WaitEnd.DIED)

    def _on_transport(self, ranks: Mapping[str, Any]) -> None:
        self.transports |= {int(rank): TransportFacts.of_message(facts) for rank, facts in ranks.items()}
        names = tuple(self.joined[index].node_name for index in sorted(self.joined))
        if end := transports.mismatch(self.plan, names, self.transports):
            self.interrupt(end)

    def _on_reply(self, index: int, op: str, message: Message) -> None:
        request = self._request
        if request is None or message["generation"] != request.generation:
            return
        if op == "early" and request.reply == "done" and message["case"] == request.case:
            request.early[message["rank"]] = RankReport.read(message["said"])
            self._settle_soon(GRACE_SECONDS, WaitEnd.GRACE)
        if op == request.reply and (request.case is None or message["case"] == request.case):
            request.by_node[index] = message
            if self._settle_if_complete():
                return
            if "ranks" in message and request.reply == "done" and has_failed(message):
                self._settle_soon(GRACE_SECONDS, WaitEnd.GRACE)
