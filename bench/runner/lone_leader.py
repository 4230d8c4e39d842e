"""The product's leader without an agent around it: the agents are played by whoever started it."""

import asyncio
import io
import os

from bench.runner.watch import Watch
from disttest_contract.environment import AgentEnvironment
from disttest_contract.message import Summary
from disttest_runner import agent, publish, store
from disttest_runner.door import Stop
from disttest_runner.leader import Leader
from disttest_runner.log import REPORT_BYTES, Log
from disttest_runner.termination import TerminationMessage


async def lead(environment: AgentEnvironment) -> None:
    summary = Summary(uid="bench", attempt=1, node_index=0, step="starting")
    log = Log(io.StringIO())
    termination = TerminationMessage(environment.termination_log, summary, log)
    leader = Leader(environment, log, termination, lambda: ("127.0.0.1", 1), max_strangers=environment.plan.nodes)
    listener = store.listen(environment.leader_host, environment.leader_port)
    server = await asyncio.get_running_loop().create_server(leader.board.accept, sock=listener)
    report = await leader.run()
    leader.board.tell(agent.end_message(Stop(report.verdict, report.reason, report.message)))
    server.close()
    await leader.board.hang_up(5)
    print("\n".join(publish.frame(report, environment.nonce, REPORT_BYTES).lines))


def main() -> None:
    watch = Watch()
    asyncio.run(lead(AgentEnvironment.read(os.environ)))
    watch.write()


if __name__ == "__main__":
    main()
