"""How a case ended for each rank: who shares a group, in which order, and what there is no room for."""

import json
import signal

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult, RankEnding, RankGroup
from disttest_runner.results.blame import CaseEvidence, RankReport, WaitEnd, World
from disttest_runner.results.endings import RankEnd, judge_case, judge_late_exits
from disttest_runner.results.endings import groups as grouped

WORLD = World(node_names=("node-a", "node-b"), ranks_per_node=2)
PASSED = RankReport(Outcome.PASSED, "")
FAILED = RankReport(Outcome.FAILED, "AssertionError: 1 != 2")
VICTIM = RankReport(Outcome.FAILED, "RuntimeError: Connection closed by peer [10.0.0.2]:4711")
SKIPPED = RankReport(Outcome.SKIPPED, "later")
NOT_RUN = RankReport(Outcome.NOT_RUN, "not run: too small")
IDLE = RankReport(None, "idle: a world of two")
KILLED = "was killed by SIGKILL"
ABORTED = "was killed by SIGABRT"


def evidence(*said: RankReport | None, end: WaitEnd = WaitEnd.ALL, **more: object) -> CaseEvidence:
    spoken = {rank: one for rank, one in enumerate(said) if one is not None}
    return CaseEvidence(end=end, seconds=1.5, said=spoken, **more)  # type: ignore[arg-type]  # fields of several types


def group(ranks: tuple[int, ...], ending: str, message: str = "") -> RankGroup:
    return RankGroup(ranks=ranks, ending=RankEnding(ending), message=message)


@pytest.mark.parametrize(
    ("found", "by_rank"),
    [
        pytest.param(evidence(PASSED, PASSED, PASSED, PASSED), (), id="all passed"),
        pytest.param(evidence(SKIPPED, SKIPPED, SKIPPED, SKIPPED), (), id="all skipped"),
        pytest.param(evidence(IDLE, IDLE, IDLE, IDLE), (), id="all idle"),
        pytest.param(
            evidence(FAILED, FAILED, FAILED, FAILED),
            (group((0, 1, 2, 3), "failed", FAILED.message),),
            id="all failed alike",
        ),
        pytest.param(
            evidence(VICTIM, FAILED, VICTIM, PASSED),
            (group((1,), "failed", FAILED.message), group((0, 2), "failed", VICTIM.message), group((3,), "passed")),
            id="one failed, two victims",
        ),
        pytest.param(
            evidence(PASSED, PASSED, IDLE, IDLE),
            (group((0, 1), "passed"), group((2, 3), "idle", IDLE.message)),
            id="two are idle",
        ),
        pytest.param(
            evidence(NOT_RUN, PASSED, PASSED, PASSED),
            (group((0,), "skipped", NOT_RUN.message), group((1, 2, 3), "passed")),
            id="one had no world that fits",
        ),
        pytest.param(
            evidence(None, PASSED, None, PASSED, end=WaitEnd.DEADLINE),
            (group((0, 2), "unfinished"), group((1, 3), "passed")),
            id="two hang",
        ),
        pytest.param(
            evidence(None, FAILED, None, PASSED, end=WaitEnd.GRACE),
            (group((1,), "failed", FAILED.message), group((0, 2), "unfinished"), group((3,), "passed")),
            id="two waited for one that failed",
        ),
        pytest.param(
            evidence(PASSED, None, VICTIM, None, end=WaitEnd.DIED, exits={3: -9, 1: -6}),
            (
                group((3,), "crashed", KILLED),
                group((0,), "passed"),
                group((1,), "crashed", ABORTED),
                group((2,), "failed", VICTIM.message),
            ),
            id="one was killed, one aborted because of it",
        ),
        pytest.param(
            evidence(None, None, None, None, end=WaitEnd.DIED, exits={2: 3}, exit_causes={2: "out of memory"}),
            (group((2,), "crashed", "exited with code 3: out of memory"), group((0, 1, 3), "unfinished")),
            id="one left",
        ),
        pytest.param(
            evidence(None, FAILED, None, None, end=WaitEnd.DIED, exits={0: -6, 1: -6}, failed_first=frozenset({1})),
            (
                group((1,), "failed", FAILED.message),
                group((2, 3), "unfinished"),
                group((0,), "crashed", ABORTED),
            ),
            id="one failed and took another one with it",
        ),
    ],
)
def test_ranks_that_ended_alike_share_a_group_and_those_to_blame_come_first(
    found: CaseEvidence, by_rank: tuple[RankGroup, ...]
) -> None:
    assert judge_case("case", found, WORLD).by_rank == by_rank


@pytest.mark.parametrize(
    ("texts", "together"),
    [
        (["rank 0 is odd", "rank 1 is odd", "rank 2 is odd", "rank 3 is odd"], [(0, 1, 2, 3)]),
        (["assert 0 < 0", "assert 1 < 0", "assert 2 < 0", "assert 3 < 0"], [(0, 1, 2, 3)]),
        (["line 7", "line 8", "line 7", "line 8"], [(0, 2), (1, 3)]),
        (["x 5", "x 6", "x 7", "x 8"], [(0,), (1,), (2,), (3,)]),
        (["a 0", "b 1", "a 2", "b 3"], [(0, 2), (1, 3)]),
        (["0 of node 0", "1 of node 0", "0 of node 1", "1 of node 1"], [(0, 1, 2, 3)]),
        (["at 0x7f1a", "at 0x7f1b", "at 0x99ff", "at 0x1"], [(0, 1, 2, 3)]),
    ],
    ids=["named", "compared", "other numbers", "all differ", "two texts", "places", "addresses"],
)
def test_their_own_number_does_not_tell_ranks_apart(texts: list[str], together: list[tuple[int, ...]]) -> None:
    ends = {rank: RankEnd(RankEnding.FAILED, text) for rank, text in enumerate(texts)}
    assert [one.ranks for one in grouped(ends, WORLD, blamed=ends)] == together


def test_hundreds_of_ranks_that_fail_differently_are_all_there_in_few_groups() -> None:
    ends = {rank: RankEnd(RankEnding.FAILED, f"{rank * 7 + 1} " + "é" * 5000) for rank in range(510)}
    ends |= {510: RankEnd(RankEnding.IDLE), 511: RankEnd(RankEnding.UNFINISHED)}
    found = grouped(ends, WORLD, blamed=range(510))
    assert len(found) == limits.RANK_GROUPS
    assert sorted(rank for one in found for rank in one.ranks) == list(range(512))
    assert [one.ending for one in found[13:]] == [RankEnding.FAILED, RankEnding.IDLE, RankEnding.UNFINISHED]
    assert [bool(one.message) for one in found] == [True] * 13 + [False] * 3
    assert len(json.dumps([one.to_json() for one in found], ensure_ascii=False).encode()) < 32 << 10


def test_a_long_message_keeps_its_end() -> None:
    ends = {0: RankEnd(RankEnding.FAILED, "def test_it():" + "x" * 9000 + "E   assert 1 == 2")}
    (only,) = grouped(ends, WORLD, blamed=(0,))
    assert only.message.startswith("def test_it():")
    assert only.message.endswith("E   assert 1 == 2")
    assert len(only.message.encode()) <= limits.RANK_MESSAGE_BYTES


def test_cases_that_ran_have_their_start_time() -> None:
    assert judge_case("case", evidence(PASSED, PASSED, PASSED, FAILED), WORLD, 2.5).at == 2.5
    assert judge_case("case", evidence(NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN), WORLD, 2.5).at is None


def test_ranks_that_end_after_a_case_ended_as_they_did_the_others_as_they_had_said() -> None:
    before = CaseResult(id="case", outcome=Outcome.PASSED, seconds=1, at=3.0)
    result = judge_late_exits(before, {1: -signal.SIGKILL}, WORLD)
    assert (result.outcome, result.at) == (Outcome.CRASHED, 3.0)
    assert result.by_rank == (group((1,), "crashed", KILLED), group((0, 2, 3), "passed"))
    mixed = CaseResult(
        id="case",
        outcome=Outcome.SKIPPED,
        seconds=1,
        by_rank=(group((0, 1), "skipped", "later"), group((2, 3), "passed")),
    )
    result = judge_late_exits(mixed, {1: 3}, WORLD)
    assert [(one.ranks, one.ending) for one in result.by_rank] == [
        ((1,), "crashed"),
        ((2, 3), "passed"),
        ((0,), "skipped"),
    ]
