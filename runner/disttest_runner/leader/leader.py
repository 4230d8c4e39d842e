"""The leader: admits the agents, has the conductor run the suites, writes the progress, and makes the report."""

import asyncio
import gc
import time
import traceback
from collections.abc import Callable

from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.outcomes import Counts, Reason, Verdict
from disttest_contract.results.network_transport import GangTransport
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import formatting
from disttest_contract.transport.progress import Progress
from disttest_runner.cases import rank_orders, sources
from disttest_runner.leader import preflight, progress_log
from disttest_runner.leader.agent_connections import AgentConnections, InterruptedRunError
from disttest_runner.leader.conductor import Conductor, RunObserver
from disttest_runner.leader.progress_log import RENDEZVOUS_SECONDS, FailedCases, Pace, ProgressLog
from disttest_runner.leader.suite_run import SuiteRun
from disttest_runner.output.log import Log
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.protocol import join_protocol
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results import transports, verdicts
from disttest_runner.results.blame import World

NOTED_SECONDS = 0.1  # a thousand cases a second need not wake the log's readers a thousand times


class Leader:
    def __init__(
        self,
        environment: AgentEnvironment,
        log: Log,
        termination: TerminationMessage,
        open_store: Callable[[], tuple[str, int]],
        *,
        max_strangers: int,
    ) -> None:
        self.plan, self._environment = environment.plan, environment
        self._log, self._termination = log, termination
        self.connections = AgentConnections(
            self.plan, environment.nonce, environment.silence_seconds, log.say, max_strangers=max_strangers
        )
        self._open_store = open_store
        self._started, self._started_monotonic = time.time(), time.monotonic()
        self._joined: float | None = None
        self._conductor: Conductor | None = None
        self._current = ""  # case in flight
        self._counts_before = Counts()  # of finished suites
        self._cases_before = 0
        self._suite: SuiteRun | None = None  # that has been collected and has not ended
        self._failures, self._has_ended = FailedCases(), False
        now = asyncio.get_running_loop().time()
        ends = now + self.plan.rendezvous_seconds + self.plan.run_seconds
        pace = Pace(started=now, ends=ends) if environment.log_is_kept else Pace.unbounded(now)
        self._progress_log = ProgressLog(pace, self._progress, log.progress_line, environment.nonce)
        self.connections.on_joined = lambda: self._progress_log.change_now(RENDEZVOUS_SECONDS)
        self._writer: asyncio.TimerHandle | None = None  # of what was noted on cases that have ended

    async def run(self) -> Report:
        """Always return a report: every failure is a verdict with a reason."""
        end: RunEnd | None = None
        try:
            await self._run()
        except InterruptedRunError as interrupted:
            end = interrupted.run_end
        except Exception as error:  # noqa: BLE001 - an error of the runner must end with a report as well
            self._log.say(traceback.format_exc())
            end = RunEnd(Verdict.ERRORED, Reason.RUNNER_ERROR, f"the runner failed: {error!r}. Report this bug")
        self._suite, self._current, self._has_ended = None, "", True
        self._progress_log.end()
        return self._report(end)

    async def _run(self) -> None:
        plan = self.plan
        self._log.say(
            f"{plan.namespace}/{plan.name} attempt {plan.attempt}: "
            f"{formatting.gang_size(plan.nodes, plan.ranks_per_node)}, {plan.backend}, "
            f"suites {', '.join(suite.name for suite in plan.suites)}"
        )
        self._step("joining")
        self.connections.heartbeat.start()  # an agent that waits for a late pod must not take the leader for lost
        await self.connections.wait_for(self.connections.all_joined, plan.rendezvous_seconds)
        _raise_if(
            join_protocol.check_gang(plan, self.connections.joined)
            or preflight.check_hardware(plan, self.connections.facts)
        )
        self._joined = time.time()
        names = self._node_names()
        self._log.say(f"joined after {self._joined - self._started:.1f} s: {', '.join(names)}")
        self._step("collecting")
        asyncio.get_running_loop().call_later(plan.run_seconds, self._on_deadline)
        await self._check_nodes()
        gc.freeze()  # connections last as long as the run: the collector need not walk thousands of them
        self._conductor = Conductor(
            plan,
            World(node_names=names, ranks_per_node=plan.ranks_per_node),
            self.connections,
            self._open_store,
            RunObserver(
                self._on_collected, self._on_case_started, self._on_case_ended, self._on_suite_ended, self._log.say
            ),
            self._started_monotonic,
        )
        await self._conductor.run()
        if plan.thresholds and not any(suite.cases for suite in plan.suites):
            self._add_unmeasured(self._conductor.done)
        transport = self._transport()
        self._log.say(f"transport: {transport.words}")
        if verdicts.of_run(self._conductor.done, None).verdict is Verdict.PASSED:
            _raise_if(transports.unproven(plan, names, self.connections.transports))

    def _transport(self) -> GangTransport:
        return transports.of_gang(self.plan, self.connections.transports)

    def _add_unmeasured(self, done: list[SuiteResult]) -> None:
        """Add thresholds that no suite has measured anything for, which is known when the last suite has ended."""
        place = verdicts.threshold_suite(self.plan)
        before, after = done[place], verdicts.with_unmeasured(self.plan, done)
        if after is before:
            return
        done[place] = sources.warned(after, self.plan.suites[place], self.connections.versions.get(0, {}))
        for number in range(len(before.cases), len(after.cases)):
            self._log.say(progress_log.case_line(after.name, number + 1, len(after.cases), after.cases[number]))
            self._failures.note(after.name, number, after.cases[number])
        self._counts_before = Counts.sum(suite.counts for suite in done)
        self._log.say(progress_log.suite_line(after))

    async def _check_nodes(self) -> None:
        """Check what is not known before torch is imported. The conductor handles agents that are late."""
        await self.connections.wait_for(
            self.connections.all_warm, max(rank_orders.MIN_COLLECT_SECONDS, self.plan.rendezvous_seconds)
        )
        facts = self.connections.facts
        for warning in preflight.warnings(self.plan, facts):
            self._log.say(f"warning: {warning}")
        _raise_if(preflight.check_software(self.plan, facts))

    def _node_names(self) -> tuple[str, ...]:
        joined = self.connections.joined
        return tuple(joined[index].node_name if index in joined else "" for index in range(self.plan.nodes))

    def _on_deadline(self) -> None:
        if self._suite is None or not self._suite.end_repetitions():
            self.connections.interrupt(_run_deadline(self.plan.run_seconds))

    def _on_collected(self, run: SuiteRun) -> None:
        self._suite = run
        self._progress_log.change_now()

    def _on_case_started(self, run: SuiteRun, case_id: str) -> None:
        is_first = self._termination.summary.step != "running"
        self._termination.update(
            step="running", current=f"{run.plan.name}: {case_id}", cases_total=self._cases_before + run.total
        )
        self._current = case_id
        self._progress_log.change_now() if is_first else self._progress_log.change()

    def _on_case_ended(self, run: SuiteRun, number: int) -> None:
        """Defer what takes system calls until the next case has started; lines on cases that passed, a bit longer."""
        result = run.result(number)
        self._current = ""
        stays = result.is_interrupted  # the termination message names the case that was running
        self._failures.note(run.plan.name, number, result)
        self._progress_log.change()
        self._log.note(progress_log.case_line(run.plan.name, number + 1, run.total, result))
        self._write_noted_within(0 if progress_log.is_bad(result) else NOTED_SECONDS)
        summary = self._termination.summary
        changes: dict[str, object] = {
            "counts": Counts.sum([self._counts_before, run.counts]),
            "current": summary.current if stays else "",
        }
        if not summary.first_failure and result.is_red:
            changes["first_failure"] = f"{run.plan.name}: {result.id} {result.outcome}: {result.message}"
        self._termination.note(**changes)

    def _write_noted_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._writer and at < self._writer.when():
            self._writer.cancel()
            self._writer = None
        self._writer = self._writer or loop.call_at(at, self._write_noted)

    def _write_noted(self) -> None:
        self._writer = None
        self._log.write_noted()
        self._termination.write_noted()

    def _on_suite_ended(self, result: SuiteResult) -> None:
        self._counts_before = Counts.sum([self._counts_before, result.counts])
        self._cases_before += len(result.cases)
        self._suite, self._current = None, ""
        self._progress_log.change_now()
        self._log.say(progress_log.suite_line(result))

    def _step(self, step: str) -> None:
        self._termination.update(step=step)
        self._progress_log.change_now()

    def _progress(self) -> Progress:
        run = self._suite
        done, total, counts = (run.done, run.total, run.counts) if run else (0, 0, Counts())
        return Progress(
            step="finished" if self._has_ended else self._termination.summary.step,
            nodes_joined=len(self.connections.joined),
            suite=run.plan.name if run else "",
            current_case=self._current,
            cases_done=self._cases_before + done,
            cases_total=self._cases_before + total,
            suites_done=len(self._conductor.done) if self._conductor else 0,
            counts=Counts.sum([self._counts_before, counts]),
            failures=self._failures.newest(),
        )

    def _report(self, end: RunEnd | None) -> Report:
        conductor = self._conductor
        suites = tuple(conductor.done) if conductor else ()
        if conductor is None and end is not None:
            suites = tuple(verdicts.unstarted(suite.name, end) for suite in self.plan.suites)
        final = verdicts.of_run(suites, end)
        plan = self.plan
        return Report(
            namespace=plan.namespace,
            name=plan.name,
            uid=plan.uid,
            attempt=plan.attempt,
            backend=plan.backend,
            nodes=plan.nodes,
            ranks_per_node=plan.ranks_per_node,
            node_names=self._node_names(),
            versions=self.connections.versions.get(0, {}),
            settings=conductor.settings if conductor else {},
            preflight=tuple(self.connections.facts.values()),
            verdict=final.verdict,
            reason=final.reason,
            message=final.message,
            started=self._started,
            joined=self._joined,
            first_case=conductor.first_case if conductor else None,
            last_case=conductor.last_case if conductor else None,
            finished=time.time(),
            generations=conductor.generation if conductor else 0,
            suites=suites,
            at_fault=end.at_fault if end else (),
            series=plan.series,
            thresholds=plan.thresholds,
            transport=self._transport(),
            trimmed=conductor.memory_budget.trimmed if conductor else "",
        )


def _raise_if(end: RunEnd | None) -> None:
    if end is not None:
        raise InterruptedRunError(end)


def _run_deadline(seconds: int) -> RunEnd:
    return RunEnd(
        Verdict.TIMED_OUT,
        Reason.RUN_TIMEOUT,
        f"the run did not finish within {seconds} s. Increase its timeout, or split the suites into several runs",
    )
