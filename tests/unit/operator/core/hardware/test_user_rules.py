"""Parsing of users' rules: the parsed rules, and the sentence with which an invalid one is refused."""

import time
from typing import Any

import pytest
import yaml

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.hardware import user_rules
from disttest_operator.core.hardware.user_rules import (
    ConditionStatus,
    InvalidRulesError,
    LogPattern,
    NodeCondition,
    PatternError,
    PodCondition,
    UserRule,
    build,
    parse,
)
from tests.support.paths import ROOT

SAMPLE = ROOT / "manifests/samples/operator-rules.yaml"
LINE = "logPattern: fell off, reason: GpuBroken"
NODE = "nodeCondition: {type: GpuSick, status: 'True'}"

# Entry, and what the one problem says.
WRONG = [
    ("fell off", "entry 1: write a mapping with one of logPattern, nodeCondition, podCondition, and reason"),
    ("{reason: GpuBroken}", "entry 1: write exactly one of logPattern, nodeCondition, podCondition, not none"),
    (
        f"{{{LINE}, {NODE}}}",
        "entry 1: write exactly one of logPattern, nodeCondition, podCondition, not logPattern and",
    ),
    ("{logPattern: fell off}", "entry 1.reason: is missing, write it"),
    (f"{{{NODE}, reason: DiskOnFire}}", "entry 1.reason: write one of CasesFailed, CasesCrashed"),
    (f"{{{NODE}, reason: AllCasesPassed}}", "entry 1.reason: write one of CasesFailed"),
    (f"{{{NODE}, reason: Cancelled}}", "entry 1.reason: write one of CasesFailed"),
    (f"{{{LINE}, verdict: Passed}}", "entry 1.verdict: write one of InfraFailed, Errored, TestsFailed, not 'Passed'"),
    (f"{{{LINE}, retry: maybe}}", "entry 1.retry: write one of true, false, not 'maybe'"),
    (f"{{{LINE}, blame: 1}}", "entry 1.blame: write a string"),
    (f"{{{LINE}, message: {'x' * 513}}}", "entry 1.message: write at most 512 characters, these are 513"),
    (f"{{{LINE}, mesage: sick}}", "entry 1.mesage: is unknown; did you mean message?"),
    (f"{{{LINE}, reason: Disrupted}}", "'reason' is written twice"),
    ("{logPattern: '', reason: GpuBroken}", "entry 1.logPattern: write at least 1 character"),
    (f"{{logPattern: {'x' * 513}, reason: GpuBroken}}", "entry 1.logPattern: write at most 512 characters"),
    ("{logPattern: 79, reason: GpuBroken}", "entry 1.logPattern: write a string (in quotes"),
    ("{logPattern: '(a', reason: GpuBroken}", "is no regular expression of RE2 (missing ): (a)"),
    ("{logPattern: 'a*', reason: GpuBroken}", "matches nothing at all, and so every line"),
    ("{logPattern: '^', reason: GpuBroken}", "matches nothing at all, and so every line"),
    (r"{logPattern: '\b', reason: GpuBroken}", "matches nothing at all, and so every line"),
    ("{logPattern: 'a(?=b)', reason: GpuBroken}", "is no regular expression of RE2 (invalid perl operator: (?=)"),
    (r"{logPattern: '(a)\1', reason: GpuBroken}", "is no regular expression of RE2 (invalid escape sequence"),
    ("{logPattern: '(a{999}){999}', reason: GpuBroken}", "is no regular expression of RE2 (invalid repetition"),
    ("{nodeCondition: GpuSick, reason: GpuBroken}", "entry 1.nodeCondition: write a mapping with type, status, reason"),
    ("{nodeCondition: {status: 'True'}, reason: GpuBroken}", "entry 1.nodeCondition.type: is missing, write it"),
    ("{nodeCondition: {type: GpuSick}, reason: GpuBroken}", "entry 1.nodeCondition.status: is missing, write it"),
    (
        "{nodeCondition: {type: GpuSick, status: Yes!}, reason: GpuBroken}",
        "entry 1.nodeCondition.status: write one of True, False, Unknown, not 'Yes!'",
    ),
    ("{nodeCondition: {type: a b, status: 'True'}, reason: GpuBroken}", "write the type of a condition, like"),
    (
        "{nodeCondition: {type: A, status: 'True', reason: not so}, reason: GpuBroken}",
        "write the reason of a condition, like",
    ),
    (
        "{podCondition: {type: Ready, status: Unknown}, reason: PodKilled}",
        "entry 1.podCondition.status: write one of True, False, not 'Unknown'",
    ),
]


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidRulesError) as caught:
        parse(text)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize(("entry", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_a_wrong_entry_is_refused_with_a_sentence(entry: str, sentence: str) -> None:
    [problem] = problems(f"- {entry}\n")
    assert sentence in problem


def test_all_problems_are_told_at_once_with_the_number_of_their_entry() -> None:
    found = problems(f"- {{{LINE}}}\n- {{{LINE}, verdict: Hung}}\n- {{logPattern: '[', reason: Nope}}\n")
    assert [problem.partition(":")[0] for problem in found] == [
        "entry 2.verdict",
        "entry 3.reason",
        "entry 3.logPattern",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "write a list of at most 256 rules"),
        (f"{{{LINE}}}", "write a list of at most 256 rules"),
        (f"- {{{LINE}}}\n" * 257, "write a list of at most 256 rules"),
        ("- {", "it is not YAML: "),
        ("- !!python/object:os.system {}", "it is not YAML: "),
        ("#" * (1 << 18) + "\n[]", "the file is too large, write at most 262144 bytes"),
    ],
    ids=["nothing", "one rule", "too many", "no YAML", "no plain YAML", "too large"],
)
def test_a_text_that_is_no_list_of_rules_is_refused(text: str, sentence: str) -> None:
    [problem] = problems(text)
    assert problem.startswith(sentence)


# Entry, and the rule that it is.
RIGHT: list[tuple[str, dict[str, Any]]] = [
    (f"{{{LINE}}}", {}),
    (f"{{{LINE}, verdict: InfraFailed, retry: false}}", {"retry": False}),
    (f"{{{LINE}, retry: 'false', blame: yes, message: look}}", {"retry": False, "blame": True, "message": "look"}),
    (f"{{{LINE}, verdict: Errored}}", {"verdict": Verdict.ERRORED, "retry": False}),
    (f"{{{LINE}, verdict: TestsFailed}}", {"verdict": Verdict.TESTS_FAILED, "retry": False}),
    (f"{{{LINE}, verdict: TestsFailed, retry: true}}", {"verdict": Verdict.TESTS_FAILED, "retry": True}),
    (f"{{{LINE}, message: null}}", {}),
]


@pytest.mark.parametrize(("entry", "changes"), RIGHT, ids=[entry for entry, _ in RIGHT])
def test_an_entry_is_read_with_its_defaults(entry: str, changes: dict[str, Any]) -> None:
    sign = LogPattern("fell off")
    assert parse(f"- {entry}") == (UserRule(sign=sign, reason=Reason.GPU_BROKEN, **changes),)


SIGNS = [
    ("nodeCondition: {type: A, status: 'True'}", NodeCondition(type="A", status=ConditionStatus.TRUE)),
    ("nodeCondition: {type: A, status: True}", NodeCondition(type="A", status=ConditionStatus.TRUE)),
    ("nodeCondition: {type: a.b/C, status: 'False'}", NodeCondition(type="a.b/C", status=ConditionStatus.FALSE)),
    ("nodeCondition: {type: A, status: Unknown}", NodeCondition(type="A", status=ConditionStatus.UNKNOWN)),
    (
        "nodeCondition: {type: A, status: 'True', reason: B}",
        NodeCondition(type="A", status=ConditionStatus.TRUE, reason="B"),
    ),
    (
        "podCondition: {type: A, status: false, reason: B}",
        PodCondition(type="A", status=ConditionStatus.FALSE, reason="B"),
    ),
    (r"logPattern: 'Xid \(.{1,80}\): 79'", LogPattern(r"Xid \(.{1,80}\): 79")),
    ("logPattern: '(?i)a(b|c)+d.*e'", LogPattern("(?i)a(b|c)+d.*e")),
    (r"logPattern: '[(*+]\+\*x(y+)?'", LogPattern(r"[(*+]\+\*x(y+)?")),
]


@pytest.mark.parametrize(("written", "sign"), SIGNS, ids=[written for written, _ in SIGNS])
def test_a_sign_is_read_as_it_is_meant(written: str, sign: LogPattern | NodeCondition | PodCondition) -> None:
    [rule] = parse(f"- {{{written}, reason: NodeLost}}")
    assert rule.sign == sign


def test_an_empty_list_is_no_rules() -> None:
    assert parse("[]") == ()


def test_every_reason_of_a_run_that_did_not_pass_may_be_given() -> None:
    assert set(Reason) - set(user_rules.REASONS) == {Reason.ALL_CASES_PASSED, Reason.CANCELLED}


def test_the_sample_is_read() -> None:
    text = yaml.safe_load(SAMPLE.read_text())["data"]["rules.yaml"]
    rules = parse(text)
    assert {type(rule.sign) for rule in rules} == {LogPattern, NodeCondition, PodCondition}
    assert {rule.verdict for rule in rules} == set(user_rules.VERDICTS)


# What takes an engine that backtracks for ever, and a line that makes it do so.
SLOW = [
    ("(a|aa)+b", "a" * 4096),
    ("(a{1,30}){1,30}b", "a" * 4096),
    ("a.*b.*c.*d.*e", "abcd" * 1024),
    ("(a+)+$x", "a" * 4096),
]


@pytest.mark.parametrize(("pattern", "line"), SLOW, ids=[pattern for pattern, _ in SLOW])
def test_no_line_makes_a_pattern_slow(pattern: str, line: str) -> None:
    [rule] = build([{"logPattern": pattern, "reason": "GpuBroken"}])
    assert isinstance(rule.sign, LogPattern)
    started = time.process_time()
    assert not rule.sign.is_in(line)
    assert time.process_time() - started < 1


def test_halves_of_surrogate_pairs_are_searched_too() -> None:
    assert LogPattern("fell off").is_in("\ud800 fell off")
    with pytest.raises(PatternError, match="is no regular expression"):
        LogPattern("\ud800")
