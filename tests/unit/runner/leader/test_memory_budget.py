"""What results weigh together in the leader is bounded, and what passed weighs nothing."""

from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import Diagnosis
from disttest_contract.results.report import CaseResult, RankEnding, RankGroup
from disttest_runner.leader.memory_budget import MemoryBudget

HANG = CaseResult(
    id="test_x.py::test_hang",
    outcome=Outcome.HUNG,
    seconds=5,
    at=1.5,
    message="m" * 2000,
    ranks=tuple(range(512)),
    nodes=tuple(f"node-{index}" for index in range(64)),
    by_rank=(
        RankGroup(ranks=(0,), ending=RankEnding.FAILED, message="a"),
        RankGroup(ranks=(2,), ending=RankEnding.FAILED, message="b"),
        RankGroup(ranks=(1, 3), ending=RankEnding.UNFINISHED),
    ),
    stacks={0: "s" * 4000},
    logs={0: "l" * 4000},
    diagnosis=Diagnosis(summary="rank 0 waits", native={0: "n" * 9000}, artifacts="/artifacts/x"),
)


def test_results_are_whole_until_they_weigh_too_much_and_short_from_then_on() -> None:
    budget = MemoryBudget(left_bytes=60_000)
    assert [budget.fit(HANG) is HANG for _ in range(3)] == [True, True, False]
    assert budget.trimmed
    short = budget.fit(HANG)
    assert (short.id, short.outcome, short.at, len(short.message.encode())) == (HANG.id, HANG.outcome, HANG.at, 512)
    assert (len(short.ranks), len(short.nodes), dict(short.stacks), dict(short.logs)) == (64, 16, {}, {})
    assert short.diagnosis == Diagnosis(summary="rank 0 waits", artifacts="/artifacts/x")
    assert [(group.ranks, group.ending, group.message) for group in short.by_rank] == [
        ((0, 2), "failed", ""),
        ((1, 3), "unfinished", ""),
    ]


def test_what_has_nothing_to_shorten_stays_and_nothing_is_said() -> None:
    budget = MemoryBudget(left_bytes=0)
    passed = CaseResult(id="a", outcome=Outcome.PASSED, seconds=1)
    skipped = CaseResult(id="b", outcome=Outcome.SKIPPED, seconds=1, message="later")
    assert (budget.fit(passed), budget.fit(skipped), budget.trimmed) == (passed, skipped, "")
