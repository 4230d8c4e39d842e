"""`python -m bench.runner.processes agent|leader`: the product's agent, or its leader alone, which measures itself.

The agent takes another zygote if BENCH_ZYGOTE is set. Both write what they used to a file when they end.
"""

import asyncio
import io
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from bench.runner.gangs import FOLDER, ZYGOTE
from disttest_contract.gang import environment
from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.transport.termination_message import Summary
from disttest_runner import __main__ as product
from disttest_runner.agent import agent
from disttest_runner.leader.agent_connections import AgentConnections
from disttest_runner.leader.leader import Leader
from disttest_runner.leader.replies import Replies
from disttest_runner.output.log import REPORT_BYTES, Log, frame_report
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.process_group import rendezvous
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.protocol.wire import Message
from disttest_runner.zygote import zygote_client


class RequestTimer:
    """Times the leader's requests to agents, in the process that it is made in, by wrapping AgentConnections.ask."""

    def __init__(self) -> None:
        self.starts: list[float] = []  # seconds that each generation took
        self.cases = 0
        self._cpu_before = self._cpu_after = 0.0
        ask = AgentConnections.ask

        async def timed(board: AgentConnections, message: Message, **options: Any) -> Replies:
            before = time.monotonic()
            if message["op"] == "run" and not self.cases:
                self._cpu_before = time.process_time()
            answers = await ask(board, message, **options)
            if message["op"] == "start":
                self.starts.append(time.monotonic() - before)
            elif message["op"] == "run":
                self.cases += 1
                self._cpu_after = time.process_time()
            return answers

        AgentConnections.ask = timed  # type: ignore[method-assign, assignment]  # the product stays unchanged

    def write(self) -> None:
        found = {
            "starts": self.starts,
            "cases": self.cases,
            "cases_cpu_seconds": self._cpu_after - self._cpu_before,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        }
        Path(os.environ[FOLDER], f"{os.environ[environment.NODE_INDEX]}.json").write_text(json.dumps(found))


def run_agent() -> int:
    if ZYGOTE in os.environ:
        zygote_client.PROGRAM = "bench.runner.zygotes"
    return product.main()


def run_leader() -> int:
    """Run the leader without an agent; the process that started this one plays all agents."""
    asyncio.run(_lead(AgentEnvironment.read(os.environ)))
    return 0


async def _lead(environment: AgentEnvironment) -> None:
    summary = Summary(uid="bench", attempt=1, node_index=0, step="starting")
    log = Log(io.StringIO())
    termination = TerminationMessage(environment.termination_log, summary, log)
    leader = Leader(environment, log, termination, lambda: ("127.0.0.1", 1), max_strangers=environment.plan.nodes)
    listener = rendezvous.listen(environment.leader_host, environment.leader_port)
    server = await asyncio.get_running_loop().create_server(leader.connections.accept, sock=listener)
    report = await leader.run()
    leader.connections.broadcast(agent.end_message(RunEnd(report.verdict, report.reason, report.message)))
    server.close()
    await leader.connections.close(5)
    print("\n".join(frame_report(report, environment.nonce, REPORT_BYTES).lines))


if __name__ == "__main__":
    timer = RequestTimer()
    code = run_leader() if sys.argv.pop(1) == "leader" else run_agent()
    timer.write()
    sys.exit(code)
