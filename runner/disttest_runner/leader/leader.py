"""The leader: lets the gang in, conducts the run, keeps progress and termination message, makes the report."""

import asyncio
import gc
import time
import traceback
from collections.abc import Callable

from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.outcomes import Counts, Reason, Verdict
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.transport.progress import Progress
from disttest_runner.cases import rank_orders, sources
from disttest_runner.leader import preflight, progress_log
from disttest_runner.leader.agent_connections import AgentConnections, InterruptedRunError
from disttest_runner.leader.conductor import Conductor, RunObserver, Times
from disttest_runner.leader.progress_log import JOIN_SECONDS, FailedCases, Pace, ProgressLog
from disttest_runner.leader.suite_run import SuiteRun
from disttest_runner.output.log import Log
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.protocol import join_protocol
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results import thresholds, verdicts
from disttest_runner.results.blame import World

NOTED_SECONDS = 0.1  # a thousand cases a second need not wake whoever reads the log a thousand times


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
        self.board = AgentConnections(
            self.plan, environment.nonce, environment.silence_seconds, log.say, max_strangers=max_strangers
        )
        self._open_store = open_store
        self._started, self._times = time.time(), Times()
        self._joined: float | None = None
        self._conductor: Conductor | None = None
        self._current = ""  # case in flight
        self._counts_before = Counts()  # of finished suites
        self._cases_before = 0
        self._suite: SuiteRun | None = None  # that has been collected and has not ended
        self._failures, self._has_ended = FailedCases(), False
        now = asyncio.get_running_loop().time()
        ends = now + self.plan.join_seconds + self.plan.run_seconds
        pace = Pace(started=now, ends=ends) if environment.log_is_kept else Pace.unbounded(now)
        self._headway = ProgressLog(pace, self._progress, log.progress_line, environment.nonce)
        self.board.on_joined = lambda: self._headway.change_now(JOIN_SECONDS)
        self._writer: asyncio.TimerHandle | None = None  # of what was noted on cases that have ended

    async def run(self) -> Report:
        """Always comes back with a report: whatever goes wrong is a verdict with a reason."""
        stop: RunEnd | None = None
        try:
            await self._run()
        except InterruptedRunError as interrupted:
            stop = interrupted.stop
        except Exception as error:  # noqa: BLE001 - a fault of ours must end with a report as well
            self._log.say(traceback.format_exc())
            stop = RunEnd(
                Verdict.ERRORED, Reason.RUNNER_ERROR, f"the runner itself failed: {error!r}; please report it"
            )
        self._suite, self._current, self._has_ended = None, "", True
        self._headway.end()
        return self._report(stop)

    async def _run(self) -> None:
        plan = self.plan
        self._log.say(
            f"{plan.namespace}/{plan.name} attempt {plan.attempt}: {plan.nodes} nodes x {plan.ranks_per_node} ranks, "
            f"{plan.backend}, suites {', '.join(suite.name for suite in plan.suites)}"
        )
        self._step("joining")
        self.board.pulse.start()  # whoever joins early must not take a leader that waits for a late pod for a lost one
        await self.board.wait_for_all(plan.join_seconds)
        _go_on_unless(
            join_protocol.check_gang(plan, self.board.joined) or preflight.check_hardware(plan, self.board.facts)
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
            self.board,
            self._open_store,
            RunObserver(self._on_collected, self._on_announced, self._on_ended, self._on_suite_ended, self._log.say),
            self._times,
        )
        await self._conductor.run()
        if plan.thresholds and not any(suite.cases for suite in plan.suites):
            self._add_unmeasured(self._conductor.done)

    def _add_unmeasured(self, done: list[SuiteResult]) -> None:
        """Thresholds about which no suite has measured anything: known when the last one has ended, not before."""
        place = thresholds.home(self.plan)
        before, after = done[place], thresholds.completed(self.plan, done)
        if after is before:
            return
        done[place] = sources.warned(after, self.plan.suites[place], self.board.versions.get(0, {}))
        for number in range(len(before.cases), len(after.cases)):
            self._log.say(progress_log.case_line(after.name, number + 1, len(after.cases), after.cases[number]))
            self._failures.note(after.name, number, after.cases[number])
        self._counts_before = Counts.sum(suite.counts for suite in done)
        self._log.say(progress_log.suite_line(after))

    async def _check_nodes(self) -> None:
        """What could not be known before torch was imported. Who is late is the conductor's to find out."""
        await self.board.wait_for_warm(max(rank_orders.MIN_COLLECT_SECONDS, self.plan.join_seconds))
        facts = self.board.facts
        for warning in preflight.warnings(self.plan, facts):
            self._log.say(f"warning: {warning}")
        _go_on_unless(preflight.check_software(facts))

    def _node_names(self) -> tuple[str, ...]:
        joined = self.board.joined
        return tuple(joined[index].node_name if index in joined else "" for index in range(self.plan.nodes))

    def _on_deadline(self) -> None:
        if self._suite is None or not self._suite.let_be_enough():
            self.board.interrupt(_run_deadline(self.plan.run_seconds))

    # --- what the conductor tells

    def _on_collected(self, run: SuiteRun) -> None:
        self._suite = run
        self._headway.change_now()

    def _on_announced(self, run: SuiteRun, case_id: str) -> None:
        is_first = self._termination.summary.step != "running"
        self._termination.update(
            step="running", current=f"{run.plan.name}: {case_id}", cases_total=self._cases_before + run.total
        )
        self._current = case_id
        self._headway.change_now() if is_first else self._headway.change()

    def _on_ended(self, run: SuiteRun, number: int) -> None:
        """What takes system calls waits until the next case is on its way; lines on cases that are well, a bit more."""
        result = run.result(number)
        self._current = ""
        stays = result.is_interrupted  # whatever ends the run, the case that was running is named
        self._failures.note(run.plan.name, number, result)
        self._headway.change()
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
        self._headway.change_now()
        self._log.say(progress_log.suite_line(result))

    def _step(self, step: str) -> None:
        self._termination.update(step=step)
        self._headway.change_now()

    def _progress(self) -> Progress:
        run = self._suite
        done, total, counts = (run.done, run.total, run.counts) if run else (0, 0, Counts())
        return Progress(
            step="finished" if self._has_ended else self._termination.summary.step,
            nodes_joined=len(self.board.joined),
            suite=run.plan.name if run else "",
            current_case=self._current,
            cases_done=self._cases_before + done,
            cases_total=self._cases_before + total,
            suites_done=len(self._conductor.done) if self._conductor else 0,
            counts=Counts.sum([self._counts_before, counts]),
            failures=self._failures.newest(),
        )

    # --- the end

    def _report(self, stop: RunEnd | None) -> Report:
        conductor = self._conductor
        suites = tuple(conductor.done) if conductor else ()
        if conductor is None and stop is not None:
            suites = tuple(verdicts.unstarted(suite.name, stop) for suite in self.plan.suites)
        final = verdicts.of_run(suites, stop)
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
            versions=self.board.versions.get(0, {}),
            preflight=tuple(self.board.facts.values()),
            verdict=final.verdict,
            reason=final.reason,
            message=final.message,
            started=self._started,
            joined=self._joined,
            first_case=conductor.times.first_case if conductor else None,
            last_case=conductor.times.last_case if conductor else None,
            finished=time.time(),
            generations=conductor.generation if conductor else 0,
            suites=suites,
            at_fault=stop.at_fault if stop else (),
            series=plan.series,
            thresholds=plan.thresholds,
            trimmed=conductor.thrift.said if conductor else "",
        )


def _go_on_unless(stop: RunEnd | None) -> None:
    if stop is not None:
        raise InterruptedRunError(stop)


def _run_deadline(seconds: int) -> RunEnd:
    return RunEnd(
        Verdict.TIMED_OUT,
        Reason.RUN_DEADLINE,
        f"the run was not finished within {seconds} s: raise its timeout or split the suites",
    )
