"""What rules of the operator's configuration find in what an attempt left behind."""

import tracemalloc
from typing import Any

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult
from disttest_operator.core.hardware import matcher
from disttest_operator.core.hardware.matcher import MAX_LINES_PER_RULE, LogLine, Signs, find_match, first_match
from disttest_operator.core.hardware.user_rules import UserRule, build
from disttest_operator.core.observed.evidence import Match
from disttest_operator.core.observed.objects import Condition, ConditionStatus, NodeView, PodView
from tests.support.builders.runs import a_pod, a_report_of

RANKS_PER_NODE = 2


def condition(status: str = "True", reason: str = "", message: str = "") -> Condition:
    return Condition(reason=reason, message=message, status=ConditionStatus(status), since=None)


def gang(**conditions: Condition) -> tuple[PodView, ...]:
    """Pods t-0 on node-a and t-1 on node-b; the second one has the conditions."""
    return (
        a_pod(0, name="t-0", node="node-a", conditions={}),
        a_pod(1, name="t-1", node="node-b", conditions=conditions),
    )


def said(*texts: str) -> Signs:
    """By the log of the leader, which is the pod of index 0."""
    return Signs(gang=gang(), lines=tuple(matcher.of_log("\n".join(texts).encode(), 0, RANKS_PER_NODE)))


def a_rule(**entry: Any) -> UserRule:
    [rule] = build([{"reason": "GPUUnhealthy", **entry}])
    return rule


def a_line_rule(**entry: Any) -> UserRule:
    return a_rule(**{"logPattern": "fell off"} | entry)


def a_node_rule(status: str = "True", **entry: Any) -> UserRule:
    return a_rule(nodeCondition={"type": "GpuSick", "status": status, **entry}, blame=True)


def on_nodes(**conditions: Condition) -> Signs:
    return Signs(gang=gang(), nodes={"node-a": {}, "node-b": conditions, "node-z": {"GpuSick": condition()}})


# Line of the leader's log, whose it is, the words for that, and who is blamed.
LINES = [
    ("[rank 1] GPU fell off", "pod t-0 on node node-a logged '[rank 1] GPU fell off'", ("node-a",)),
    ("[rank 3] GPU fell off", "pod t-1 on node node-b logged '[rank 3] GPU fell off'", ("node-b",)),
    ("[zygote] GPU fell off", "pod t-0 on node node-a logged '[zygote] GPU fell off'", ("node-a",)),
    ("[rank 9] GPU fell off", "the leader's log contains '[rank 9] GPU fell off'", ()),
    ("      GPU fell off", "the leader's log contains 'GPU fell off'", ()),
    (" [rank 1] GPU fell off", "the leader's log contains '[rank 1] GPU fell off'", ()),
]


@pytest.mark.parametrize(("text", "words", "blamed"), LINES, ids=[text for text, _, _ in LINES])
def test_a_line_is_tied_to_the_node_of_its_rank_and_else_to_none(
    text: str, words: str, blamed: tuple[str, ...]
) -> None:
    match = find_match(a_line_rule(blame=True, message="broken"), said("fine", text))
    assert match is not None
    assert match.message == f"broken: {words}"
    assert match.nodes == blamed


def test_a_rule_without_blame_blames_no_node() -> None:
    match = find_match(a_line_rule(), said("[rank 1] fell off"))
    assert match is not None
    assert match.nodes == ()


def test_each_node_with_the_sign_is_blamed_once() -> None:
    match = find_match(a_line_rule(blame=True), said("[rank 3] fell off", "[rank 0] fell off", "[rank 2] fell off"))
    assert match is not None
    assert match.nodes == ("node-b", "node-a")
    assert match.message == (
        "a rule of the operator's configuration matches: pod t-1 on node node-b logged '[rank 3] fell off'"
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["[rank 1] fell on"],
        ["[rank 1] " + "x" * 4096 + "fell off"],  # beyond what is looked at
        ["[rank 1] fell", "[rank 1] off"],
        ["DISTTEST-REPORT 00 1 fell off"],
    ],
    ids=["another text", "far behind", "over two lines", "the report"],
)
def test_a_line_is_no_sign(texts: list[str]) -> None:
    assert find_match(a_line_rule(), said(*texts)) is None


def test_the_match_has_verdict_reason_and_retry_of_the_rule() -> None:
    rule = a_line_rule(verdict="TestsFailed", reason="CasesFailed", retry=True)
    assert find_match(rule, said("fell off")) == Match(
        verdict=Verdict.TESTS_FAILED,
        reason=Reason.CASES_FAILED,
        message="a rule of the operator's configuration matches: the leader's log contains 'fell off'",
        retry=True,
    )


def test_a_long_line_is_cut_in_the_message() -> None:
    match = find_match(a_line_rule(), said("fell off" + "é" * 4000))
    assert match is not None
    assert len(match.message.encode()) < 500


# Status and reason that the rule wants, those that the node has, and whether they match.
CONDITIONS = [
    ({"status": "True"}, condition("True"), True),
    ({"status": "True"}, condition("False"), False),
    ({"status": "False"}, condition("False"), True),
    ({"status": "False"}, condition("Unknown"), False),
    ({"status": "Unknown"}, condition("Unknown"), True),
    ({"status": "Unknown"}, condition("False"), False),
    ({"status": "True", "reason": "Xid79"}, condition("True", "Xid79"), True),
    ({"status": "True", "reason": "Xid79"}, condition("True", "Xid31"), False),
    ({"status": "True"}, condition("True", "Xid79"), True),
]


@pytest.mark.parametrize(("wanted", "found", "matches"), CONDITIONS)
def test_a_condition_must_have_the_status_and_if_named_the_reason(
    wanted: dict[str, str],
    found: Condition,
    matches: bool,  # noqa: FBT001  # a column of the table
) -> None:
    match = find_match(a_node_rule(**wanted), on_nodes(GpuSick=found))
    assert (match is not None) is matches
    if match:
        assert match.nodes == ("node-b",)


def test_a_condition_is_reported_with_its_reason_and_message() -> None:
    match = find_match(a_node_rule(), on_nodes(GpuSick=condition("True", "Xid79", "GPU 3 is lost")))
    assert match is not None
    assert match.message.endswith("matches: node node-b has GpuSick=True (Xid79: GPU 3 is lost)")


def test_nodes_outside_the_gang_or_without_permission_are_no_sign() -> None:
    assert find_match(a_node_rule(), on_nodes()) is None
    assert find_match(a_node_rule(), Signs(gang=gang())) is None


def test_a_condition_of_a_pod_is_searched_in_the_pods_of_the_gang() -> None:
    rule = a_rule(podCondition={"type": "Ready", "status": "False", "reason": "Sick"}, blame=True)
    match = find_match(rule, Signs(gang=gang(Ready=condition("False", "Sick"))))
    assert match is not None
    assert match.message.endswith("matches: pod t-1 on node node-b has Ready=False (Sick)")
    assert match.nodes == ("node-b",)
    assert find_match(rule, on_nodes(Ready=condition("False", "Sick"))) is None


def test_the_first_rule_that_matches_wins() -> None:
    rules = (a_line_rule(message="first"), a_line_rule(message="second"))
    match = first_match(rules, said("fell off"))
    assert match is not None
    assert match.message.startswith("first")
    assert first_match(rules, said("fine")) is None
    assert first_match((), said("fell off")) is None


def test_lines_are_not_searched_any_more_when_it_is_late_but_conditions_are() -> None:
    late = iter([False, True])
    rules = (a_line_rule(), a_node_rule())
    there = Signs(
        gang=gang(),
        lines=(LogLine(text="fine"), LogLine(text="fell off")),
        nodes={"node-b": {"GpuSick": condition()}},
    )
    match = first_match(rules, there, lambda: next(late))
    assert match is not None
    assert match.nodes == ("node-b",)


def test_messages_of_cases_that_ended_badly_are_lines_of_the_first_rank_to_blame() -> None:
    cases = (
        CaseResult(id="a", outcome=Outcome.FAILED, seconds=1, message="ranks 3, 2:\nfell off", ranks=(3, 2)),
        CaseResult(id="b", outcome=Outcome.FAILED, seconds=1, message="fell off"),
        CaseResult(id="c", outcome=Outcome.PASSED, seconds=1, message="fell off", ranks=(0,)),
    )
    lines = tuple(matcher.of_report(a_report_of(*cases)))
    assert [(line.text, line.index) for line in lines] == [("ranks 3, 2:", 1), ("fell off", 1), ("fell off", None)]


def test_signs_are_collected_from_what_the_operator_keeps() -> None:
    pod = a_pod(0, node="node-a")
    node = NodeView(name="node-a", labels={}, allocatable={}, conditions={"GpuSick": condition()})
    collected = matcher.collect([pod], [node], [LogLine(text="x")])
    assert collected.gang == (pod,)
    assert collected.nodes == {"node-a": node.conditions}
    assert collected.lines == (LogLine(text="x"),)


def test_of_many_lines_only_those_that_match_a_rule_are_kept() -> None:
    log = b"\n" * (4 << 20) + b"[rank 1] GPU fell off\n" * 1000 + b"[rank 1] a fire\n"
    rules = [a_line_rule(), a_line_rule(logPattern="a fire"), a_node_rule()]
    tracemalloc.start()
    kept = list(matcher.matching_lines(rules, matcher.of_log(log, 0, RANKS_PER_NODE)))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line.text for line in kept] == ["[rank 1] GPU fell off"] * MAX_LINES_PER_RULE + ["[rank 1] a fire"]
    assert most_bytes < 1 << 20


def test_a_rule_that_found_enough_takes_no_line_from_another() -> None:
    log = b"[rank 1] GPU fell off\n" * MAX_LINES_PER_RULE + b"[rank 1] GPU fell off the bus\n"
    rules = [a_line_rule(), a_line_rule(logPattern="the bus", reason="NodeLost")]
    kept = list(matcher.matching_lines(rules, matcher.of_log(log, 0, RANKS_PER_NODE)))
    assert kept[-1].text.endswith("the bus")


def test_lines_are_searched_only_until_it_is_late() -> None:
    answers = iter([False, True])
    lines = matcher.of_log(b"fell off\nfell off\n", 0, RANKS_PER_NODE)
    assert len(list(matcher.matching_lines([a_line_rule()], lines, lambda: next(answers)))) == 1


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"], ids=ascii)
def test_a_rank_cannot_begin_a_line_of_another_rank(end: str) -> None:
    match = find_match(a_line_rule(blame=True), said(f"[rank 1] all is well{end}[rank 3] GPU fell off"))
    assert match is not None
    assert match.nodes == ("node-a",)
