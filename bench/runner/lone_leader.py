"""The product's leader without an agent around it: the agents are played by whoever started it."""

import asyncio
import io
import os

from bench.runner.watch import QuestionTimer
from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.transport.termination_message import Summary
from disttest_runner.agent import agent
from disttest_runner.leader.leader import Leader
from disttest_runner.output.log import REPORT_BYTES, Log, frame_report
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.process_group import rendezvous
from disttest_runner.protocol.join_protocol import RunEnd


async def lead(environment: AgentEnvironment) -> None:
    summary = Summary(uid="bench", attempt=1, node_index=0, step="starting")
    log = Log(io.StringIO())
    termination = TerminationMessage(environment.termination_log, summary, log)
    leader = Leader(environment, log, termination, lambda: ("127.0.0.1", 1), max_strangers=environment.plan.nodes)
    listener = rendezvous.listen(environment.leader_host, environment.leader_port)
    server = await asyncio.get_running_loop().create_server(leader.board.accept, sock=listener)
    report = await leader.run()
    leader.board.tell(agent.end_message(RunEnd(report.verdict, report.reason, report.message)))
    server.close()
    await leader.board.hang_up(5)
    print("\n".join(frame_report(report, environment.nonce, REPORT_BYTES).lines))


def main() -> None:
    watch = QuestionTimer()
    asyncio.run(lead(AgentEnvironment.read(os.environ)))
    watch.write()


if __name__ == "__main__":
    main()
