"""The leader's connections: lets agents in, asks all of them something, and gathers the answers until a deadline."""

import asyncio
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import NodeFacts
from disttest_runner.leader.replies import Replies, Step, has_failed
from disttest_runner.protocol import wire
from disttest_runner.protocol.heartbeat import Heartbeat
from disttest_runner.protocol.join_protocol import Hello, JoinRefusedError, RunEnd, check_hello
from disttest_runner.protocol.wire import LineProtocol, Message, WireError
from disttest_runner.results.blame import RankReport, WaitEnd

GRACE_SECONDS = 3.0  # for the peers of a rank that failed: they may wait for it in a collective
EXIT_SECONDS = 0.1  # after a rank's end, for the ends of others that had the same cause
HELLO_SECONDS = 10.0


class InterruptedRunError(Exception):
    """The run cannot go on. `answers` is what had come back of the question that was asked last."""

    def __init__(self, stop: RunEnd, answers: Replies | None = None) -> None:
        super().__init__(stop.message)
        self.stop, self.answers = stop, answers


class AgentConnections:
    """`stop` is set once, by whatever first makes the run impossible; from then on every question raises it.

    A last question, on what ranks are doing, may still be asked.
    """

    def __init__(
        self, plan: RunPlan, nonce: str, silence_seconds: float, say: Callable[[str], None], *, max_strangers: int
    ) -> None:
        self.plan, self._nonce, self._say = plan, nonce, say
        self.on_joined: Callable[[], None] = lambda: None
        self.joined: dict[int, Hello] = {}
        self.versions: dict[int, dict[str, str]] = {}
        self._clocks: dict[int, tuple[float, float]] = {}  # seconds: ahead of ours, round trip
        self._welcomed: dict[int, float] = {}  # when, since the epoch
        self.pulse = Heartbeat(
            silence_seconds,
            lambda: self.tell(wire.ALIVE),
            lambda index, what: self._interrupt_by(index, Reason.GANG_LOST, f"the agent {what}"),
        )
        self.exits: dict[int, int] = {}  # ranks of this generation that ended by themselves
        self.exit_causes: dict[int, str] = {}  # why, where their agent knows
        self.stop: RunEnd | None = None
        self._agents: dict[int, LineProtocol] = {}
        self._lost: set[int] = set()  # node indexes
        self._strangers: dict[LineProtocol, asyncio.TimerHandle] = {}  # have not said who they are; the oldest first
        self._max_strangers = max_strangers
        self._refusals_told = 0
        self._all_here = asyncio.Event()
        self._all_warm = asyncio.Event()
        self._generation = 0
        self._step: Step | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # --- joining

    def accept(self) -> LineProtocol:
        """A connection; for asyncio's create_server."""
        lines = LineProtocol(self._on_first_line, self._forget_stranger, wire.HELLO_BYTES)
        if len(self._strangers) >= self._max_strangers:  # an agent speaks at once, so it is not the oldest
            self._forget_stranger(next(iter(self._strangers)), is_closed=True)
        self._strangers[lines] = self._loop.call_later(HELLO_SECONDS, lines.close)
        return lines

    def close_strangers(self) -> None:
        """No descriptors are left: an agent connects again."""
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
            if self._refusals_told < 10:
                self._refusals_told += 1
                self._say(f"a connection was refused: {error}")
            lines.send({"op": "refused", "message": str(error)})
            lines.close()
            return
        self._forget_stranger(lines)
        index = hello.node_index
        self.joined[index], self._agents[index] = hello, lines
        lines.serve(partial(self._on_line, index), lambda _: self._on_lost(index), wire.LINE_BYTES)
        lines.send({"op": "welcome"})
        self._welcomed[index] = time.time()
        self.pulse.hear(index)
        self.on_joined()
        if len(self.joined) == self.plan.nodes:
            self._all_here.set()

    async def wait_for_all(self, seconds: float) -> None:
        """Until all have joined, the deadline, or a stop; who is missing is for the caller to see."""
        await self._wait(self._all_here, seconds)

    async def wait_for_warm(self, seconds: float) -> None:
        """Until all have told their versions, the deadline, or a stop."""
        await self._wait(self._all_warm, seconds)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        if self.stop:
            raise InterruptedRunError(self.stop)

    @property
    def facts(self) -> dict[int, NodeFacts]:
        """What is known of each node that has joined."""
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

    # --- asking

    def tell(self, message: Message) -> None:
        raw = wire.pack(message)
        for lines in self._agents.values():
            lines.write(raw)

    async def ask(self, message: Message, *, answer: str, seconds: float, is_last: bool = False) -> Replies:
        """Send to all agents; an answer is a message with that op, of the same generation and case.

        `is_last`: it is asked although the run ends.
        """
        if self.stop and not is_last:
            raise InterruptedRunError(self.stop)
        if message["op"] == "start":
            self._generation, self.exits, self.exit_causes = message["generation"], {}, {}
        started = self._loop.time()
        step = self._step = Step(
            answer=answer,
            generation=self._generation,
            case=message.get("case"),
            deadline=started + seconds,
            done=self._loop.create_future(),
        )
        self._timer = self._loop.call_at(step.deadline, self._settle, WaitEnd.DEADLINE)
        self.tell(message)
        end = await step.done
        self._step = None
        self._timer.cancel()
        answers = Replies(
            end=end,
            seconds=self._loop.time() - started,
            by_node=step.by_node,
            early=step.early,
            before_exit=step.before_exit or frozenset(),
        )
        if self.stop and not is_last:
            raise InterruptedRunError(self.stop, answers)
        return answers

    def interrupt(self, stop: RunEnd) -> None:
        """End the run at the next possible moment; the first cause counts."""
        if self.stop:
            return
        self.stop = stop
        self._all_here.set()
        self._all_warm.set()
        self._settle(WaitEnd.INTERRUPTED)

    async def hang_up(self, seconds: float) -> None:
        """Close all connections; what was written before still goes out."""
        for lines in [*self._agents.values(), *self._strangers]:
            lines.close()
        deadline = self._loop.time() + seconds
        while any(not lines.is_lost for lines in self._agents.values()) and self._loop.time() < deadline:  # noqa: ASYNC110 - many connections, one deadline
            await asyncio.sleep(0.005)

    def _settle(self, end: WaitEnd) -> None:
        if self._step and not self._step.done.done():
            self._step.done.set_result(end)

    def _settle_if_complete(self) -> bool:
        """Whether all agents have answered, but for those that cannot."""
        step = self._step
        answered = len(step.by_node.keys() | self._lost if self._lost else step.by_node) if step else 0
        if answered == self.plan.nodes:
            self._settle(WaitEnd.ALL)
        return answered == self.plan.nodes

    def _settle_soon(self, seconds: float, end: WaitEnd) -> None:
        """Wait at most so much longer than now; a timer that ends sooner stays."""
        at = self._loop.time() + seconds
        if self._step and self._timer and at < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(at, self._settle, end)

    # --- hearing

    def _on_lost(self, index: int) -> None:
        self._lost.add(index)
        self._interrupt_by(index, Reason.GANG_LOST, "the agent went away")
        self._settle_if_complete()

    def _interrupt_by(self, index: int, reason: Reason, what: str, *, is_at_fault: bool = True) -> None:
        hello = self.joined[index]
        where = f"node index {index} (pod {hello.pod_name} on {hello.node_name})"
        at_fault = (index,) if is_at_fault else ()
        self.interrupt(RunEnd(Verdict.INFRA_FAILED, reason, f"{where}: {what}", at_fault=at_fault))

    def _on_line(self, index: int, _: LineProtocol, raw: bytes) -> None:
        message: dict[str, Any] = wire.unpack(raw)
        self.pulse.hear(index)
        match message["op"]:
            case "done":  # nearly all of them
                self._on_answer(index, "done", message)
            case "alive":
                pass
            case "clock":
                welcomed, now = self._welcomed[index], time.time()
                self._clocks[index] = (message["time"] - (welcomed + now) / 2, now - welcomed)
            case "warm":
                self.versions[index] = message["versions"]
                if len(self.versions) == self.plan.nodes:
                    self._all_warm.set()
            case "broken":
                self._interrupt_by(index, Reason.GANG_FAILED_TO_START, message["message"])
            case "leaving":  # it was told to: no fault of its node
                what = f"the agent left: {message['message']}"
                self._interrupt_by(index, Reason.GANG_LOST, what, is_at_fault=False)
            case "exited" if message["generation"] == self._generation:
                self.exits[message["rank"]] = message["status"]
                self.exit_causes |= {message["rank"]: str(message["why"])} if "why" in message else {}
                if self._step and self._step.answer in ("collected", "done"):
                    self._step.note_exit()
                    self._settle_soon(EXIT_SECONDS, WaitEnd.DIED)
            case op:
                self._on_answer(index, op, message)

    def _on_answer(self, index: int, op: str, message: Message) -> None:
        step = self._step
        if step is None or message["generation"] != step.generation:
            return
        if op == "early" and step.answer == "done" and message["case"] == step.case:
            step.early[message["rank"]] = RankReport.read(message["said"])
            self._settle_soon(GRACE_SECONDS, WaitEnd.GRACE)
        if op == step.answer and (step.case is None or message["case"] == step.case):
            step.by_node[index] = message
            if self._settle_if_complete():
                return
            if "ranks" in message and step.answer == "done" and has_failed(message):
                self._settle_soon(GRACE_SECONDS, WaitEnd.GRACE)
