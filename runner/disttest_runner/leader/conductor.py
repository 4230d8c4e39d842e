"""Runs the suites over the gang: suite after suite, case after case. Knows no sockets and no processes."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_runner.cases import collection, rank_orders, sources
from disttest_runner.cases.collection import Repetition
from disttest_runner.leader.agent_connections import AgentConnections, InterruptedRunError
from disttest_runner.leader.evidence import CloserLook, evidence_of, seen_by_agents, with_stacks
from disttest_runner.leader.memory_budget import MemoryBudget
from disttest_runner.leader.replies import Replies, agreed
from disttest_runner.leader.suite_run import SuiteRun
from disttest_runner.results import blame, endings, measurements, thresholds, verdicts
from disttest_runner.results.blame import CaseEvidence, WaitEnd, World

STACKS_SECONDS = 5.0
ADVICE = "is the file named test_*.py, and do its functions begin with test_?"


class BrokenSuiteError(Exception):
    """The suite cannot be run or continued; the next one may."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class Times:
    """Seconds since the epoch, but for `started`: when the leader began, by the clock that nobody sets."""

    started: float = field(default_factory=time.monotonic)
    first_case: float | None = None
    last_case: float | None = None


@dataclass(frozen=True, slots=True)
class RunObserver:
    """Whoever wants to show how it goes."""

    collected: Callable[[SuiteRun], None]  # for the first time
    announced: Callable[[SuiteRun, str], None]
    ended: Callable[[SuiteRun, int], None]  # the place of the case
    suite_ended: Callable[[SuiteResult], None]
    noted: Callable[[str], None]


class Conductor:
    def __init__(
        self,
        plan: RunPlan,
        world: World,
        board: AgentConnections,
        open_store: Callable[[], tuple[str, int]],
        observer: RunObserver,
        times: Times,
    ) -> None:
        self.plan, self.world, self.board = plan, world, board
        self.done: list[SuiteResult] = []
        self.generation = 0
        self.thrift = MemoryBudget()
        self.times = times
        self._open_store, self._observer = open_store, observer
        self._current: SuiteRun | None = None
        self._closer_look = CloserLook(board, writes=bool(plan.artifacts))

    async def run(self) -> None:
        """Raises InterruptedRunError; `done` then holds all suites all the same, with what is known of each."""
        try:
            for index, suite in enumerate(self.plan.suites):
                self._current = SuiteRun(suite, index, time.monotonic(), repetition=Repetition.of(self.plan))
                result = await self._suite(self._current)
                self._finish_suite(sources.warned(result, suite, self.board.versions.get(0, {})))
        except InterruptedRunError as interrupted:
            stop = interrupted.stop
            if self._current is not None:
                run, self._current = self._current, None
                self._finish_suite(
                    SuiteResult(
                        name=run.plan.name,
                        verdict=stop.verdict,
                        reason=stop.reason,
                        message=f"{run.note()}{stop.message}",
                        seconds=time.monotonic() - run.started,
                        cases=(*run.results, *run.unrun(stop.message)),
                    )
                )
            for suite in self.plan.suites[len(self.done) :]:
                self._finish_suite(verdicts.unstarted(suite.name, stop))
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
                run.let_go_of_good(number)
                await self._case(run, number)
            self._blame_late_exits(run)
        except BrokenSuiteError as broken:
            cases = (*run.results, *run.unrun(str(broken)))
            seconds = time.monotonic() - run.started
            return verdicts.broken(name, broken.reason, str(broken), seconds=seconds, cases=cases)
        await self._rerun(run)
        cases = (*run.results, *run.unrun("a case before it ended badly: the run ends there"))
        return verdicts.finished(run.plan, seconds=time.monotonic() - run.started, cases=cases, note=run.note())

    async def _rerun(self, run: SuiteRun) -> None:
        """Cases that ended badly get another try in a generation of their own; passing then is flaky, not red."""
        for _ in range(self.plan.flaky_retries):
            places = run.to_rerun()
            try:
                for number in places:
                    run.needs_gang = run.needs_gang or number == places[0]
                    await self._case(run, number)
                self._blame_late_exits(run)
            except BrokenSuiteError as broken:
                self._observer.noted(f"cases of {run.plan.name} were not tried again: {broken}")
                return

    async def _start(self, run: SuiteRun) -> None:
        """A new generation that has collected the suite's cases."""
        self.generation += 1
        message = {"op": "start", "generation": self.generation, "suite": run.index, "store": self._open_store()}
        seconds = max(rank_orders.MIN_COLLECT_SECONDS, self.plan.join_seconds)
        answers = await self.board.ask(message, answer="collected", seconds=seconds)
        if answers.end is not WaitEnd.ALL:
            raise await self._did_not_collect(answers)
        errors = {int(rank): text for answer in answers.by_node.values() for rank, text in answer["errors"].items()}
        if errors:
            rank = min(errors)
            where = blame.name_ranks(sorted(errors), self.world)
            raise BrokenSuiteError(Reason.COLLECTION_FAILED, f"collecting failed on {where}: {errors[rank]}")
        digests = {
            rank: d for answer in answers.by_node.values() for d, ranks in answer["digests"].items() for rank in ranks
        }
        ids = tuple(answers.by_node[0]["ids"])
        odd = sorted(rank for rank, digest in digests.items() if digest != digests[0])
        if odd:
            raise await self._collected_differently(ids, odd, digests[odd[0]])
        if run.digest and digests[0] != run.digest:
            raise BrokenSuiteError(
                Reason.COLLECTION_DIFFERS,
                f"started anew, all ranks collected other cases than before: {collection.difference(run.ids, ids)}",
            )
        is_new, run.ids, run.digest, run.needs_gang = not run.digest, ids, digests[0], False
        if too_many := run.repetition.excess(len(ids)):
            raise BrokenSuiteError(Reason.INVALID_SPEC, too_many)
        if not ids:
            notes = [answer["note"] for answer in answers.by_node.values() if answer["note"]]
            raise BrokenSuiteError(
                Reason.NOTHING_COLLECTED, f"the suite holds no cases: {notes[0] if notes else ADVICE}"
            )
        if is_new:
            self._observer.collected(run)

    async def _did_not_collect(self, answers: Replies) -> BrokenSuiteError:
        exits = self.board.exits
        if exits:
            who = blame.name_ranks(sorted(exits), self.world)
            how = blame.how_it_ended(exits[min(exits)])
            return BrokenSuiteError(
                Reason.COLLECTION_FAILED, f"{who} {how} while collecting the cases; its output says more"
            )
        silent = [node for node in range(self.plan.nodes) if node not in answers.by_node]
        names = ", ".join(self.world.node_names[node] for node in silent)
        seen = seen_by_agents((await self._ask_stacks()).by_node.values())
        text = next((one.stack or one.silent for one in seen.values() if one.stack or one.silent), "")
        return BrokenSuiteError(
            Reason.COLLECTION_FAILED,
            f"collecting the cases was not finished after {answers.seconds:.0f} s on {names}\n{text}",
        )

    async def _collected_differently(self, ids: tuple[str, ...], odd: list[int], digest: str) -> BrokenSuiteError:
        answers = await self.board.ask({"op": "ids", "digest": digest}, answer="ids", seconds=STACKS_SECONDS)
        lists = [tuple(answer["ids"]) for answer in answers.by_node.values() if answer["ids"] is not None]
        what = collection.difference(ids, lists[0] if lists else ())
        where = blame.name_ranks(odd, self.world)
        return BrokenSuiteError(Reason.COLLECTION_DIFFERS, f"{where} collected other cases than rank 0: {what}")

    async def _case(self, run: SuiteRun, number: int) -> None:
        self._blame_late_exits(run)
        if run.needs_gang:
            await self._start(run)
        case_id = run.turn_id(number)
        self._observer.announced(run, case_id)
        self.times.first_case = self.times.first_case or time.time()
        at = time.monotonic() - self.times.started
        answers = await self._run_case(number)
        result = agreed(case_id, answers, self.board.exits, at)
        if result is None:
            result = self._judge(case_id, await self._evidence(answers), at)
        if measured := measurements.gather(answers.by_node.values()):
            result = dataclasses.replace(result, measurements=measurements.merge(measured))
        self.times.last_case = time.time()
        is_cut_retry = result.is_interrupted and number < run.done  # its first result stays, and was reported
        run.record(number, self.thrift.kept(thresholds.judged(result, self.plan.thresholds)))
        # a rank could not undo what the case did to its process: the next case must not meet it
        stale = any(answer.get("stale") for answer in answers.by_node.values())
        run.needs_gang = blame.needs_new_gang(result) or stale  # being slow leaves no rank behind
        if not is_cut_retry:
            self._observer.ended(run, number)
        if self.board.stop:
            raise InterruptedRunError(self.board.stop)
        closer = await self._closer_look.at(run.plan.name, result)
        if closer is not result:
            run.amend(self.thrift.kept(closer))

    async def _run_case(self, number: int) -> Replies:
        """If the run ends before the case, what was answered up to then."""
        message = {"op": "run", "generation": self.generation, "case": number}
        try:
            return await self.board.ask(message, answer="done", seconds=self.plan.case_seconds)
        except InterruptedRunError as interrupted:
            if interrupted.answers is None:
                raise
            return interrupted.answers

    def _judge(self, case_id: str, evidence: CaseEvidence, at: float) -> CaseResult:
        if stop := self.board.stop:
            return endings.judge_interrupted(case_id, evidence, self.world, at, stop=stop)
        return endings.judge_case(case_id, evidence, self.world, at)

    async def _evidence(self, answers: Replies) -> CaseEvidence:
        board = self.board
        ranks = self.plan.ranks_per_node
        evidence = evidence_of(answers, board.exits, board.exit_causes, ranks_per_node=ranks)
        if answers.end in (WaitEnd.ALL, WaitEnd.DIED):
            return evidence
        return with_stacks(evidence, await self._ask_stacks(), board.exits)

    async def _ask_stacks(self) -> Replies:
        """Also when the run has been interrupted: it is the last question then."""
        return await self.board.ask({"op": "stacks"}, answer="stacks", seconds=STACKS_SECONDS, is_last=True)

    def _blame_late_exits(self, run: SuiteRun) -> None:
        """A rank that ended after it had reported: the case before did it, whatever it said."""
        exits = dict(self.board.exits)
        if not exits or run.needs_gang:
            return
        who = blame.name_ranks(sorted(exits), self.world)
        message = f"{who} {blame.how_it_ended(exits[min(exits)])} between two cases"
        if run.last is None:
            raise BrokenSuiteError(Reason.COLLECTION_FAILED, message)
        before = run.result(run.last)
        result = endings.judge_late_exits(before, exits, self.world)
        run.amend(dataclasses.replace(result, message=f"{message}, after this one had reported its result"))
        self._observer.ended(run, run.last)
