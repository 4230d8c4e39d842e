"""If all nodes agree, the result is the same as that of judging each rank."""

import pytest

from disttest_contract.outcomes import Outcome
from disttest_runner.leader.replies import Replies, agreed
from disttest_runner.protocol.wire import Message
from disttest_runner.results.blame import CaseEvidence, RankReport, WaitEnd, World, judge_case

WORLD = World(node_names=("node-a", "node-b"), ranks_per_node=2)
PASSED = ["passed", ""]


def done(words: list[str], seconds: float = 0.1) -> Message:
    return {"op": "done", "seconds": seconds, "all": words}


def answers(*by_node: Message, end: WaitEnd = WaitEnd.ALL, **more: object) -> Replies:
    fields = {"early": {}, "by_node": dict(enumerate(by_node)), **more}
    return Replies(end=end, seconds=9.0, **fields)  # type: ignore[arg-type]  # fields of several types


@pytest.mark.parametrize(
    "words",
    [PASSED, ["skipped", "needs a GPU"], ["xfailed", "known"], ["xpassed", ""], ["notRun", "not run: too small"]],
    ids=lambda words: words[0],
)
def test_an_agreed_result_is_the_judged_one(words: list[str]) -> None:
    result = agreed("case", answers(done(words, 0.1), done(words, 0.3)), {})
    said = dict.fromkeys(range(4), RankReport.read(words))
    assert result == judge_case("case", CaseEvidence(end=WaitEnd.ALL, seconds=0.3, said=said), WORLD)


@pytest.mark.parametrize(
    ("replies", "exits"),
    [
        pytest.param(answers(done(PASSED), done(["skipped", "why"])), {}, id="nodes differ"),
        pytest.param(answers(done(["skipped", "a"]), done(["skipped", "b"])), {}, id="reasons differ"),
        pytest.param(answers(done(PASSED), {"op": "done", "seconds": 0.1, "ranks": {}}), {}, id="ranks differ"),
        pytest.param(answers(done(["failed", "1 != 2"]), done(["failed", "1 != 2"])), {}, id="all failed"),
        pytest.param(answers(done(["idle", "idle: x"]), done(["idle", "idle: x"])), {}, id="all idle"),
        pytest.param(answers(done(PASSED), end=WaitEnd.DEADLINE), {}, id="a node is silent"),
        pytest.param(answers(done(PASSED), done(PASSED), end=WaitEnd.DIED), {}, id="a rank died"),
        pytest.param(answers(done(PASSED), done(PASSED)), {3: -9}, id="a process ended meanwhile"),
        pytest.param(
            answers(done(PASSED), done(PASSED), early={1: RankReport(Outcome.FAILED, "x")}), {}, id="a rank had failed"
        ),
        pytest.param(answers(done(PASSED), done(PASSED), before_exit=frozenset({1})), {}, id="failed before an exit"),
    ],
)
def test_anything_else_is_left_to_judging(replies: Replies, exits: dict[int, int]) -> None:
    assert agreed("case", replies, exits) is None
