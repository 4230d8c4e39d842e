"""The agent of one pod: runs the ranks as the leader asks and leaves no process behind. Node index 0 also leads.

Standard library only: torch and pytest are imported in the ranks and the zygote.
"""

import asyncio
import contextlib
import errno
import os
import platform
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from disttest_contract import outcomes
from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report
from disttest_contract.transport.termination_message import Summary
from disttest_runner.agent import accelerator, early_signals
from disttest_runner.agent.accelerator import Accelerator
from disttest_runner.agent.leader_link import LeaderLink, NotJoinedError
from disttest_runner.agent.local_ranks import LocalRanks
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.diagnosis.hang_dumps import HangDumps
from disttest_runner.leader.leader import Leader
from disttest_runner.linux import processes, resource_limits
from disttest_runner.linux.resource_limits import OpenFiles
from disttest_runner.output import log
from disttest_runner.output.log import REPORT_BYTES, Log
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.process_group import rendezvous
from disttest_runner.protocol.join_protocol import Hello, RunEnd
from disttest_runner.protocol.wire import Message
from disttest_runner.zygote.zygote_client import ZygoteProcess

CLOSE_SECONDS = 1.0
CLEAN_UP_SECONDS = 3.0
LEAVE_SECONDS = 8.0  # for which a signalled agent still answers the leader, which asks what ranks are doing for 5 s
SIGNALLED: Mapping[int, RunEnd] = {
    signal.SIGTERM: RunEnd(
        Verdict.INFRA_FAILED, Reason.TERMINATED, "the run was terminated (SIGTERM) before it finished"
    ),
    signal.SIGINT: RunEnd(Verdict.CANCELLED, Reason.CANCELLED, "the run was interrupted (SIGINT) before it finished"),
    signal.SIGQUIT: RunEnd(Verdict.INFRA_FAILED, Reason.TERMINATED, "the run was killed (SIGQUIT) before it finished"),
}


class Agent:
    def __init__(self, environment: AgentEnvironment, zygote: ZygoteProcess, *, max_open_files: int) -> None:
        self.environment, self.plan = environment, environment.plan
        self._open_files = OpenFiles.of(self.plan, environment.node_index, max_open_files)
        self.log = Log(is_kept=environment.log_is_kept)
        summary = Summary(
            uid=self.plan.uid, attempt=self.plan.attempt, node_index=environment.node_index, step="starting"
        )
        self.termination = TerminationMessage(environment.termination_log, summary, self.log)
        self.store = rendezvous.StoreListener(environment.leader_host)
        self.link = LeaderLink(self._on_message, self._on_leader_lost, environment.silence_seconds)
        details = HangDumps(self.plan, environment.node_index, environment.node_name, self.log)
        self.ranks = LocalRanks(self.plan, zygote, details, self.log, self.link.send, self._on_broken)
        self.leader: Leader | None = None
        self._leaving: RunEnd | None = None  # set by a signal
        self._orders: asyncio.Queue[Message] = asyncio.Queue()
        self._ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()

    async def run(self, earlier_signals: Sequence[int]) -> ExitCode:
        """Run until the verdict and return its exit code. `earlier_signals` are handled first."""
        loop = asyncio.get_running_loop()
        for number in early_signals.STOPS:
            loop.add_signal_handler(number, self._on_signal, number)
        for earlier in earlier_signals:
            self._on_signal(earlier)
        await self.ranks.attach()
        if self.environment.node_index == 0:
            self.leader = Leader(
                self.environment, self.log, self.termination, self.store.open, max_strangers=self._open_files.strangers
            )
            loop.set_exception_handler(self._on_loop_problem)
        if problem := self._open_files.problem:
            self._on_broken(problem)
        tasks = [loop.create_task(self._follow())]
        if self.leader is not None:
            tasks.append(loop.create_task(self._lead(self.leader)))
        ending = await self._ended
        self.ranks.end()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLEAN_UP_SECONDS)
        stuck = processes.kill_all_children(CLEAN_UP_SECONDS)
        if stuck:
            self.log.say(f"warning: processes {stuck} did not end within {CLEAN_UP_SECONDS} s")
        await self.ranks.close()
        return outcomes.EXIT_CODES[ending.verdict]

    def _end(self, run_end: RunEnd) -> None:
        if not self._ended.done():
            self._ended.set_result(run_end)

    async def _lead(self, leader: Leader) -> None:
        environment = self.environment
        try:
            listener = rendezvous.listen(environment.leader_host, environment.leader_port)
        except OSError as error:
            message = f"the leader cannot listen on port {environment.leader_port}: {error.strerror}"
            leader.connections.interrupt(RunEnd(Verdict.INFRA_FAILED, Reason.GANG_FAILED_TO_START, message))
            server = None
        else:
            at_once = self._open_files.accepted_at_once
            server = await asyncio.get_running_loop().create_server(
                leader.connections.accept, sock=listener, backlog=at_once
            )
            listener.listen(rendezvous.BACKLOG)  # the kernel may keep more waiting than asyncio accepts at once
        report = await leader.run()
        ending = RunEnd(report.verdict, report.reason, report.message)
        leader.connections.broadcast(end_message(ending))
        self.ranks.end()
        if server:
            server.close()
        self._publish(report)
        await leader.connections.close(CLOSE_SECONDS)
        self._end(ending)

    def _on_loop_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Free file descriptors when there are none left; asyncio then accepts no connection for a second."""
        error = context.get("exception")
        if self.leader is None or not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
            return
        self.leader.connections.close_strangers()
        self.log.say(f"warning: {error.strerror}: unauthenticated connections were closed")

    def _publish(self, report: Report) -> None:
        """Write the log first, since the termination message has the checksum of its report."""
        self.log.say_dropped()
        self.log.say(f"verdict {report.verdict} ({report.reason}): {report.message}")
        framed = log.frame_report(report, self.environment.nonce, REPORT_BYTES)
        if framed.trimmed:
            self.log.say(f"warning: the report was too large. Omitted: {framed.trimmed}")
        self.log.report(framed.lines)
        was_cut_short = report.verdict is Verdict.INFRA_FAILED
        self.termination.update(
            step="finished",
            current=self.termination.summary.current if was_cut_short else "",
            verdict=report.verdict,
            reason=report.reason,
            message=report.message,
            counts=report.counts,
            report_sha256=framed.sha256,
        )

    async def _follow(self) -> None:
        environment, plan = self.environment, self.plan
        hello = Hello(
            nonce=environment.nonce,
            node_index=environment.node_index,
            node_name=environment.node_name,
            pod_name=environment.pod_name,
            pod_uid=environment.pod_uid,
            facts=await asyncio.to_thread(inspect, environment.node_name, accelerator.of_backend(plan.backend)),
        )
        try:
            if self.leader is not None:
                await self.link.connect_in_process(self.leader.connections.accept, hello, plan.rendezvous_seconds)
            else:
                self.termination.update(step="joining")
                await self.link.connect(
                    environment.leader_host, environment.leader_port, hello, plan.rendezvous_seconds
                )
        except NotJoinedError as refused:
            self._finish_alone(refused.run_end)
            return
        try:
            while True:
                await self._execute(await self._orders.get())
        except (OSError, KeyError, ValueError) as error:
            self._on_broken(f"the agent failed: {error!r}")

    async def _execute(self, message: Message) -> None:
        match message["op"]:
            case "start":
                if self.environment.node_index:
                    self.termination.update(step="running")
                await self.ranks.start(self._rank_orders(message), message["suite"], self.store.socket)
                self.store.close()
            case "stacks":
                await self.ranks.stacks()
            case "details":
                await self.ranks.details(message)
            case "ids":
                self.ranks.ids(message["digest"])
            case unknown:
                raise ValueError(f"the agent does not support the request {unknown!r} of the leader")

    def _rank_orders(self, message: Message) -> list[RankOrder]:
        plan, node = self.plan, self.environment.node_index
        suite = replace(plan.suites[message["suite"]], env=(), quarantine=())
        host, port = message["store"]
        return [
            RankOrder(
                rank=node * plan.ranks_per_node + local,
                local_rank=local,
                node_index=node,
                world_size=plan.world_size,
                ranks_per_node=plan.ranks_per_node,
                generation=message["generation"],
                backend=plan.backend,
                case_seconds=plan.case_seconds,
                store_host=host,
                store_port=port,
                suite=suite,
            )
            for local in range(plan.ranks_per_node)
        ]

    def _on_message(self, message: Message, raw: bytes) -> None:
        match message["op"]:
            case "run":
                self.ranks.run_case(raw, message["case"])
            case "end":
                ending = RunEnd(Verdict(message["verdict"]), Reason(message["reason"]), message["message"])
                if self.leader is None:
                    self._finish_alone(self._leaving or ending, is_news=False)
            case _:
                self._orders.put_nowait(message)

    def _on_leader_lost(self, how: str) -> None:
        if self._leaving:
            self._finish_alone(self._leaving, is_news=False)
        elif self.leader is None:
            message = f"the leader at {self.environment.leader_host} {how} before it reported a verdict"
            self._finish_alone(RunEnd(Verdict.INFRA_FAILED, Reason.GANG_LOST, message))

    def _on_broken(self, message: str) -> None:
        self.log.say(f"error: {message}")
        self.link.send({"op": "broken", "message": message})

    def _finish_alone(self, run_end: RunEnd, *, is_news: bool = True) -> None:
        """End this agent; the leader reports the end of the run."""
        if self._ended.done():
            return
        self._note_end(run_end, is_news=is_news)
        self._end(run_end)

    def _note_end(self, run_end: RunEnd, *, is_news: bool = True) -> None:
        if is_news:
            self.log.say(f"{run_end.verdict} ({run_end.reason}): {run_end.message}")
        self.termination.update(
            step="finished", verdict=run_end.verdict, reason=run_end.reason, message=run_end.message
        )

    def _on_signal(self, number: int) -> None:
        """End at once, without a report, at SIGQUIT; else let the leader ask first what ranks are doing."""
        run_end = SIGNALLED[number]
        if number == signal.SIGQUIT:
            self._finish_alone(run_end)
        elif self.leader is not None:
            self.leader.connections.interrupt(run_end)
        elif not self.link.is_connected:
            self._finish_alone(run_end)
        elif self._leaving is None:
            self._leave(run_end)

    def _leave(self, run_end: RunEnd) -> None:
        self._leaving = run_end
        self._note_end(run_end)
        with contextlib.suppress(OSError):
            self.link.send({"op": "leaving", "message": run_end.message})
        asyncio.get_running_loop().call_later(LEAVE_SECONDS, partial(self._finish_alone, run_end, is_news=False))


def inspect(node_name: str, devices: Accelerator) -> NodeFacts:
    """Return the facts on this node before any rank starts. Takes seconds where a driver is initialized."""
    found = devices.detect(os.environ)
    if found.products:
        found = devices.initialized(found)
    return NodeFacts(
        node_name=node_name,
        gpus=found.products,
        shares_gpus=os.environ.get(accelerator.SHARE_GPUS) == "1",
        driver=found.driver,
        cuda_driver=found.runtime,
        cuda_error=found.error,
        busy_gpus=accelerator.busy(devices.used_bytes(os.environ)) if found.products else (),
        shm_bytes=resource_limits.shm_bytes(),
        memlock_bytes=resource_limits.memlock_bytes(),
        cpus=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
    )


def end_message(run_end: RunEnd) -> Message:
    return {"op": "end", "verdict": run_end.verdict, "reason": run_end.reason, "message": run_end.message[:4096]}


async def run(
    environment: AgentEnvironment, zygote: ZygoteProcess, earlier_signals: Sequence[int], *, max_open_files: int
) -> ExitCode:
    processes.hide_memory()
    if os.getpid() != 1:  # process 1 of a container adopts orphans anyway
        processes.adopt_orphans()
    return await Agent(environment, zygote, max_open_files=max_open_files).run(earlier_signals)
