"""CPU of the leader alone: this process plays all agents, so that the other process has nothing but the leader."""

import asyncio
import json
import resource
import secrets
import statistics
import tempfile
from pathlib import Path
from typing import cast

from bench.figure import Figure, at_most
from bench.runner import gangs
from disttest_cli.local.agents import agent_environment, free_port
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.preflight import NodeFacts
from disttest_runner.compat import override
from disttest_runner.protocol.join_protocol import Hello
from disttest_runner.protocol.wire import ALIVE, Message, pack
from tools.demo.session import say

AGENTS = (64, 512, 4096)
RANKS = 8
CASES = 50
ROUNDS = 3
DESCRIPTORS_TO_SPARE = 200
PLAY_SECONDS = 240
GOAL_US = 20


def measure() -> list[Figure]:
    """Return medians of alternating runs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    possible = [agents for agents in AGENTS if agents + DESCRIPTORS_TO_SPARE <= hard]
    if len(possible) < len(AGENTS):
        say(f"  only {hard} file descriptors are allowed: gangs larger than {possible[-1]} are skipped")
    found: dict[int, list[float]] = {agents: [] for agents in possible}
    for number in range(ROUNDS):
        for agents in possible:
            ran = play(agents)
            found[agents].append(1e6 * ran.own[0]["cases_cpu_seconds"] / CASES / agents)
            say(
                f"  round {number + 1} of {ROUNDS}: {agents} agents: {found[agents][-1]:.1f} us of CPU per agent and "
                f"case, {ran.case_ms:.1f} ms a case, leader {ran.own[0]['rss_mb']:.0f} MB"
            )
    return [
        at_most(f"leader_cpu_per_agent_and_case_{agents}_agents", statistics.median(times), "us", GOAL_US, digits=1)
        for agents, times in found.items()
    ]


def play(agents: int) -> gangs.Ran:
    """Run stub cases with that many played agents."""
    nonce, port = secrets.token_hex(16), free_port()
    plan = gangs.plan(SuitePlan(name="stubs", directory="/"), nodes=agents, ranks=RANKS)
    with tempfile.TemporaryDirectory(prefix="disttest-bench-") as name:
        leader = f"127.0.0.1:{port}"
        own = agent_environment(plan, 0, nonce=nonce, leader=leader, folder=Path(name))
        process = gangs.start("leader", {gangs.FOLDER: name, **own})
        try:
            asyncio.run(asyncio.wait_for(_play(agents, port, nonce), PLAY_SECONDS))
            text = process.communicate(timeout=PLAY_SECONDS)[0]
        finally:
            process.kill()
            process.wait()
        used = json.loads((Path(name) / "0.json").read_text())
    report = gangs.read_report(text, nonce)
    return gangs.expect(gangs.Ran(report=report, wall_seconds=0, cpu_seconds=0, own={0: used}), passed=CASES)


async def _play(agents: int, port: int, nonce: str) -> None:
    """Let agents join one after the other and answer until the leader has closed all connections."""
    loop = asyncio.get_running_loop()
    players = []
    for index in range(agents):
        player = PlayedAgent(index, nonce)
        while True:
            try:
                await loop.create_connection(lambda player=player: player, "127.0.0.1", port)  # type: ignore[misc]  # a default binds it
                break
            except ConnectionRefusedError:  # it does not listen yet
                await asyncio.sleep(0.05)
        players.append(player)
        await player.is_welcome
    for player in players:
        await player.has_ended


class PlayedAgent(asyncio.Protocol):
    """One agent, whose ranks pass every case immediately."""

    replies: dict[bytes, bytes] = {}  # noqa: RUF012 - shared: a case's line is the same for all

    def __init__(self, index: int, nonce: str) -> None:
        self.index = index
        self.is_welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.has_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest = b""
        self._hello = Hello(
            nonce=nonce,
            node_index=index,
            node_name=f"node-{index}",
            pod_name=f"pod-{index}",
            pod_uid=str(index),
            facts=NodeFacts(),
        )

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(pack(self._hello.to_message()))

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.has_ended.set_result(None)

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if reply := self.replies.get(line) or self._reply(line):
                self._transport.write(reply)

    def _reply(self, line: bytes) -> bytes:
        message: Message = json.loads(line)
        match message["op"]:
            case "welcome":
                self.is_welcome.set_result(None)
                return pack({"op": "warm", "seconds": 0.0, "versions": {"torch": "none"}})
            case "alive":
                return pack(ALIVE)
            case "start":
                first = self.index * RANKS
                ids = None if self.index else [f"stub::case_{number}" for number in range(CASES)]
                answer: Message = {
                    "digests": {"stub": list(range(first, first + RANKS))},
                    "errors": {},
                    "ids": ids,
                    "note": "",
                    "settings": {},
                }
                return pack({"op": "collected", **answer, "generation": message["generation"], "case": None})
            case "run":
                answer = {"seconds": 0.0001, "all": ["passed", ""]}
                answer |= {"generation": message["generation"], "case": message["case"]}
                self.replies.clear()
                self.replies[line] = pack({"op": "done", **answer})
                return self.replies[line]
            case "end":
                return b""
            case unknown:
                raise SystemExit(f"bench: the leader requests {unknown!r}, which the simulated agents do not support")
