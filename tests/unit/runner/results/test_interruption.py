"""The case that is running when the run ends: interrupted with a diagnosis, unless what ranks reported proves more."""

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import RankEnding, SuiteResult
from disttest_runner.diagnosis.observation import RankObservation, StackPlace
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results import endings, verdicts
from disttest_runner.results.blame import CaseEvidence, RankReport, WaitEnd, World

WORLD = World(node_names=("node-a",), ranks_per_node=2)
STOP = RunEnd(Verdict.TIMED_OUT, Reason.RUN_TIMEOUT, "the run did not finish within 20 s")
PASSED = RankReport(Outcome.PASSED, "")
FAILED = RankReport(Outcome.FAILED, "AssertionError: 1 != 2")
VICTIM = RankReport(Outcome.FAILED, "RuntimeError: Connection closed by peer [10.0.0.2]:4711")
SEEN = {
    0: RankObservation(stack="in all_reduce", place=StackPlace("all_reduce", "test_a (t.py:9)")),
    1: RankObservation(stack="in sleep", place=StackPlace("", "test_a (t.py:7)")),
}


def evidence(*said: RankReport | None, end: WaitEnd = WaitEnd.INTERRUPTED) -> CaseEvidence:
    spoken = {rank: one for rank, one in enumerate(said) if one is not None}
    return CaseEvidence(
        end=end, seconds=12.4, said=spoken, seen={rank: SEEN[rank] for rank in SEEN if rank not in spoken}
    )


def test_a_case_that_was_running_is_interrupted_with_stacks_and_who_waits_and_no_blame() -> None:
    case = endings.judge_interrupted("t.py::test_a", evidence(None, None), WORLD, 3.0, stop=STOP)
    assert (case.outcome, case.is_interrupted, case.at) == (Outcome.NOT_RUN, True, 3.0)
    assert case.message == (
        "still running after 12 s when the run timed out; "
        "rank 0 waits in all_reduce; rank 1 on node-a is elsewhere: rank 1 is at test_a (t.py:7)"
    )
    assert (case.ranks, case.nodes) == ((), ())
    assert dict(case.stacks) == {1: "in sleep", 0: "in all_reduce"}
    assert [(group.ranks, group.ending) for group in case.by_rank] == [((0, 1), RankEnding.UNFINISHED)]


@pytest.mark.parametrize(
    ("found", "outcome", "is_interrupted"),
    [
        pytest.param(evidence(PASSED, None), Outcome.NOT_RUN, True, id="one has passed"),
        pytest.param(evidence(VICTIM, None), Outcome.NOT_RUN, True, id="one lost its peer"),
        pytest.param(evidence(FAILED, None), Outcome.FAILED, False, id="one has failed"),
        pytest.param(evidence(PASSED, PASSED), Outcome.PASSED, False, id="all have passed meanwhile"),
        pytest.param(evidence(None, None, end=WaitEnd.DEADLINE), Outcome.HUNG, False, id="its own deadline came first"),
    ],
)
def test_what_ranks_reported_before_may_prove_more(
    found: CaseEvidence,
    outcome: Outcome,
    is_interrupted: bool,  # noqa: FBT001  # a table
) -> None:
    case = endings.judge_interrupted("t.py::test_a", found, WORLD, 3.0, stop=STOP)
    assert (case.outcome, case.is_interrupted) == (outcome, is_interrupted)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason.TERMINATED, "when the run was terminated"),
        (Reason.CANCELLED, "when the run was interrupted"),
        (Reason.GANG_LOST, "when an agent was lost"),
        (Reason.GPU_UNHEALTHY, "when the run ended (GPUUnhealthy)"),
    ],
)
def test_the_message_says_what_ended_the_run(reason: Reason, words: str) -> None:
    stop = RunEnd(Verdict.INFRA_FAILED, reason, "ended")
    case = endings.judge_interrupted("t.py::test_a", evidence(None, None), WORLD, 3.0, stop=stop)
    assert case.message.startswith(f"still running after 12 s {words}; ")


def test_the_message_of_the_run_names_the_case() -> None:
    case = endings.judge_interrupted("t.py::test_a", evidence(None, None), WORLD, 3.0, stop=STOP)
    suite = SuiteResult(name="mine", verdict=STOP.verdict, reason=STOP.reason, seconds=1, cases=(case,))
    assert verdicts.of_run([suite], STOP).message == f"{STOP.message}; still running: mine: t.py::test_a"
