"""Runs the plan's suites on the gang, one case after the other. It uses no sockets and no processes itself."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Outcome, Reason
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_runner.cases import collection, rank_orders, sources
from disttest_runner.cases.collection import Repetition
from disttest_runner.leader.agent_connections import AgentConnections, InterruptedRunError
from disttest_runner.leader.memory_budget import MemoryBudget
from disttest_runner.leader.replies import Replies, agreed, evidence_of, observations, with_observations
from disttest_runner.leader.suite_run import SuiteRun
from disttest_runner.process_group import torch_settings
from disttest_runner.results import blame, endings, measurements, verdicts
from disttest_runner.results.blame import CaseEvidence, WaitEnd, World

STACKS_SECONDS = 5.0
ADVICE = "check that its files are named test_*.py and its functions test_*"


class BrokenSuiteError(Exception):
    """The suite cannot be run or continued; the next one may."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunObserver:
    """Callbacks on the progress of the run."""

    collected: Callable[[SuiteRun], None]  # for the first time
    case_started: Callable[[SuiteRun, str], None]  # with its id
    case_ended: Callable[[SuiteRun, int], None]  # with its place in the suite
    suite_ended: Callable[[SuiteResult], None]
    noted: Callable[[str], None]  # a line for the log


DETAILED_HANGS = 3  # of a run: C frames and NCCL's status take seconds, and later hangs are mostly like the first
WRITTEN_HANGS = 50  # of a run, where there is a directory for it
DETAILS_SECONDS = 40.0  # py-spy, a service and a volume have shorter deadlines
CULPRITS = 2  # whose C frames are read, and one that waits for them


class HangDetails:
    """Asks agents for details of the first hangs of a run. `writes`: there is a directory for whole dumps."""

    def __init__(self, connections: AgentConnections, *, writes: bool) -> None:
        self._connections, self._writes = connections, writes
        self._hangs = 0

    async def add(self, suite: str, result: CaseResult) -> CaseResult:
        """Return the result of a hang, which has been reported already, with what takes seconds to find out."""
        if result.outcome is not Outcome.HUNG:
            return result
        self._hangs += 1
        is_detailed = self._hangs <= DETAILED_HANGS
        if not is_detailed and not (self._writes and self._hangs <= WRITTEN_HANGS):
            return result
        ranks = _representative_ranks(result) if is_detailed else []
        request = {"op": "details", "suite": suite, "case_id": result.id, "close": is_detailed, "ranks": ranks}
        replies = await self._connections.ask(request, reply="details", seconds=DETAILS_SECONDS)
        return with_details(result, [replies.by_node[node] for node in sorted(replies.by_node)])


def _representative_ranks(result: CaseResult) -> list[int]:
    """Return culprits that have not finished, then one rank that waits."""
    culprits = [rank for rank in result.ranks if rank in result.stacks][:CULPRITS]
    return [*culprits, *[rank for rank in result.stacks if rank not in result.ranks][:1]]


def with_details(result: CaseResult, details: Sequence[Mapping[str, Any]]) -> CaseResult:
    native = {int(rank): str(text) for one in details for rank, text in one["native"].items()}
    diagnosis = replace(
        result.diagnosis or Diagnosis(),
        native=dict(list(native.items())[: CULPRITS + 1]),
        ras=next((str(one["ras"]) for one in details if one["ras"]), ""),
        artifacts=next((str(one["artifacts"]) for one in details if one["artifacts"]), ""),
    )
    return replace(result, diagnosis=diagnosis)


class Conductor:
    """`started` is when the leader started, by the monotonic clock."""

    def __init__(
        self,
        plan: RunPlan,
        world: World,
        connections: AgentConnections,
        open_store: Callable[[], tuple[str, int]],
        observer: RunObserver,
        started: float,
    ) -> None:
        self.plan, self.world, self.connections = plan, world, connections
        self.done: list[SuiteResult] = []
        self.generation = 0
        self.settings: dict[str, str] = {}  # of all suites, by the first node
        self.memory_budget = MemoryBudget()
        self.first_case: float | None = None  # when it started, in seconds since the epoch
        self.last_case: float | None = None  # when it ended, likewise
        self._started = started
        self._open_store, self._observer = open_store, observer
        self._current: SuiteRun | None = None
        self._hang_details = HangDetails(connections, writes=bool(plan.artifacts))

    async def run(self) -> None:
        """Raises InterruptedRunError; `done` then still has a result for every suite."""
        try:
            for index, suite in enumerate(self.plan.suites):
                self._current = SuiteRun(suite, index, time.monotonic(), repetition=Repetition.of(self.plan))
                result = await self._suite(self._current)
                self._finish_suite(sources.warned(result, suite, self.connections.versions.get(0, {})))
        except InterruptedRunError as interrupted:
            end = interrupted.run_end
            if self._current is not None:
                run, self._current = self._current, None
                self._finish_suite(
                    SuiteResult(
                        name=run.plan.name,
                        verdict=end.verdict,
                        reason=end.reason,
                        message=f"{run.note()}{end.message}",
                        seconds=time.monotonic() - run.started,
                        cases=(*run.results, *run.unrun(end.message)),
                    )
                )
            for suite in self.plan.suites[len(self.done) :]:
                self._finish_suite(verdicts.unstarted(suite.name, end))
            raise

    def _finish_suite(self, result: SuiteResult) -> None:
        self._current = None
        self.done.append(result)
        self._observer.suite_ended(result)

    async def _suite(self, run: SuiteRun) -> SuiteResult:
        name = run.plan.name
        try:
            await self._start(run)
            for number in run.turns():
                run.drop_passed(number)
                await self._case(run, number)
            self._blame_late_exits(run)
        except BrokenSuiteError as broken:
            cases = (*run.results, *run.unrun(str(broken)))
            seconds = time.monotonic() - run.started
            return verdicts.broken(name, broken.reason, str(broken), seconds=seconds, cases=cases)
        await self._rerun(run)
        cases = (*run.results, *run.unrun(run.why_ended))
        return verdicts.finished(run.plan, seconds=time.monotonic() - run.started, cases=cases, note=run.note())

    async def _rerun(self, run: SuiteRun) -> None:
        """Run failed cases again in a new generation; those that pass then are flaky, not failed."""
        for _ in range(self.plan.flaky_retries):
            places = run.to_rerun()
            try:
                for number in places:
                    run.needs_gang = run.needs_gang or number == places[0]
                    await self._case(run, number)
                self._blame_late_exits(run)
            except BrokenSuiteError as broken:
                self._observer.noted(f"cases of {run.plan.name} were not rerun: {broken}")
                return

    async def _start(self, run: SuiteRun) -> None:
        """Start a new generation and have it collect the suite's cases."""
        self.generation += 1
        message = {"op": "start", "generation": self.generation, "suite": run.index, "store": self._open_store()}
        seconds = max(rank_orders.MIN_COLLECT_SECONDS, self.plan.rendezvous_seconds)
        replies = await self.connections.ask(message, reply="collected", seconds=seconds)
        if replies.end is not WaitEnd.ALL:
            raise await self._did_not_collect(replies)
        errors = {int(rank): text for reply in replies.by_node.values() for rank, text in reply["errors"].items()}
        if errors:
            rank = min(errors)
            where = blame.name_ranks(sorted(errors), self.world)
            raise BrokenSuiteError(Reason.COLLECTION_FAILED, f"collecting failed on {where}: {errors[rank]}")
        digests = {
            rank: d for reply in replies.by_node.values() for d, ranks in reply["digests"].items() for rank in ranks
        }
        ids = tuple(replies.by_node[0]["ids"])
        self.settings |= torch_settings.of_suite(replies.by_node[0]["settings"], run.plan)
        odd = sorted(rank for rank, digest in digests.items() if digest != digests[0])
        if odd:
            raise await self._collected_differently(ids, odd, digests[odd[0]])
        if run.digest and digests[0] != run.digest:
            raise BrokenSuiteError(
                Reason.COLLECTION_DIFFERS,
                f"after a restart, all ranks collected different cases: {collection.difference(run.ids, ids)}",
            )
        is_new, run.ids, run.digest, run.needs_gang = not run.digest, ids, digests[0], False
        if too_many := run.repetition.excess(len(ids)):
            raise BrokenSuiteError(Reason.INVALID_SPEC, too_many)
        if not ids:
            notes = [reply["note"] for reply in replies.by_node.values() if reply["note"]]
            raise BrokenSuiteError(
                Reason.NO_CASES_COLLECTED, f"the suite has no cases: {notes[0] if notes else ADVICE}"
            )
        if is_new:
            self._observer.collected(run)

    async def _did_not_collect(self, replies: Replies) -> BrokenSuiteError:
        exits = self.connections.exits
        if exits:
            who = blame.name_ranks(sorted(exits), self.world)
            how = blame.how_it_ended(exits[min(exits)])
            return BrokenSuiteError(
                Reason.COLLECTION_FAILED, f"{who} {how} while collecting the cases. Check its output in the log"
            )
        silent = [node for node in range(self.plan.nodes) if node not in replies.by_node]
        names = ", ".join(self.world.node_names[node] for node in silent)
        seen = observations((await self._observe_ranks()).by_node.values())
        text = next((one.stack or one.silent for one in seen.values() if one.stack or one.silent), "")
        return BrokenSuiteError(
            Reason.COLLECTION_FAILED,
            f"the cases were not collected within {replies.seconds:.0f} s on {names}\n{text}",
        )

    async def _collected_differently(self, ids: tuple[str, ...], odd: list[int], digest: str) -> BrokenSuiteError:
        replies = await self.connections.ask({"op": "ids", "digest": digest}, reply="ids", seconds=STACKS_SECONDS)
        lists = [tuple(reply["ids"]) for reply in replies.by_node.values() if reply["ids"] is not None]
        what = collection.difference(ids, lists[0] if lists else ())
        where = blame.name_ranks(odd, self.world)
        return BrokenSuiteError(Reason.COLLECTION_DIFFERS, f"{where} collected different cases than rank 0: {what}")

    async def _case(self, run: SuiteRun, number: int) -> None:
        self._blame_late_exits(run)
        if run.needs_gang:
            await self._start(run)
        case_id = run.turn_id(number)
        self._observer.case_started(run, case_id)
        self.first_case = self.first_case or time.time()
        at = time.monotonic() - self._started
        replies = await self._run_case(number)
        result = agreed(case_id, replies, self.connections.exits, at)
        if result is None:
            result = self._judge(case_id, await self._explained(await self._evidence(replies)), at)
        if measured := measurements.gather(replies.by_node.values()):
            result = replace(result, measurements=measurements.merge(measured))
        self.last_case = time.time()
        is_cut_retry = result.is_interrupted and number < run.done  # its first result stays, and was reported
        run.record(number, self.memory_budget.fit(verdicts.judge_bandwidth(result, self.plan.thresholds)))
        # a rank could not undo what the case did to its process: the next case must not meet it
        stale = any(reply.get("stale") for reply in replies.by_node.values())
        run.needs_gang = blame.needs_new_gang(result) or stale  # being slow leaves no rank behind
        if not is_cut_retry:
            self._observer.case_ended(run, number)
        if self.connections.run_end:
            raise InterruptedRunError(self.connections.run_end)
        detailed = await self._hang_details.add(run.plan.name, result)
        if detailed is not result:
            run.amend(self.memory_budget.fit(detailed))

    async def _run_case(self, number: int) -> Replies:
        """If the run ends before the case, return the replies received so far."""
        message = {"op": "run", "generation": self.generation, "case": number}
        try:
            return await self.connections.ask(message, reply="done", seconds=self.plan.case_seconds)
        except InterruptedRunError as interrupted:
            if interrupted.replies is None:
                raise
            return interrupted.replies

    def _judge(self, case_id: str, evidence: CaseEvidence, at: float) -> CaseResult:
        if end := self.connections.run_end:
            return endings.judge_interrupted(case_id, evidence, self.world, at, stop=end)
        return endings.judge_case(case_id, evidence, self.world, at)

    async def _evidence(self, replies: Replies) -> CaseEvidence:
        ranks = self.plan.ranks_per_node
        known = self.connections
        evidence = evidence_of(replies, known.exits, known.exit_causes, logs=known.exit_logs, ranks_per_node=ranks)
        if replies.end in (WaitEnd.ALL, WaitEnd.DIED):
            return evidence
        return with_observations(evidence, await self._observe_ranks(), self.connections.exits)

    async def _explained(self, evidence: CaseEvidence) -> CaseEvidence:
        """Add why processes aborted, and what the others do if the aborted ones waited for them."""
        evidence = replace(evidence, exit_causes=dict(self.connections.exit_causes))
        if evidence.seen or not blame.waits_for_others(evidence):
            return evidence
        return with_observations(evidence, await self._observe_ranks(), self.connections.exits)

    async def _observe_ranks(self) -> Replies:
        """Ask what ranks are doing, also when the run has been interrupted."""
        return await self.connections.ask({"op": "stacks"}, reply="stacks", seconds=STACKS_SECONDS, is_last=True)

    def _blame_late_exits(self, run: SuiteRun) -> None:
        """Blame a rank's end after it had reported a result on the case before, whatever it reported."""
        exits = dict(self.connections.exits)
        if not exits or run.needs_gang:
            return
        who = blame.name_ranks(sorted(exits), self.world)
        message = f"{who} {blame.how_it_ended(exits[min(exits)])} between two cases"
        if run.last is None:
            raise BrokenSuiteError(Reason.COLLECTION_FAILED, message)
        before = run.result(run.last)
        result = endings.judge_late_exits(before, exits, self.world, logs=self.connections.exit_logs)
        run.amend(replace(result, message=f"{message}, after this case reported its result"))
        self._observer.case_ended(run, run.last)
