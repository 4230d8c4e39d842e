"""Parsing of users' rules: the parsed rules, and the sentence with which an invalid one is refused."""

import time
from typing import Any

import pytest
import yaml

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.hardware import user_rules
from disttest_operator.core.hardware.user_rules import (
    ConditionSign,
    InvalidRulesError,
    LogPattern,
    PatternError,
    UserRule,
    build,
    parse,
)
from disttest_operator.core.observed.objects import ConditionStatus
from tests.support.paths import ROOT

SAMPLE = ROOT / "manifests/samples/operator-rules.yaml"
LINE = "logPattern: fell off, reason: GPUUnhealthy"
NODE = "nodeCondition: {type: GpuSick, status: 'True'}"

# Entry, and what the one problem says.
WRONG = [
    ("fell off", "entry 1: must be a mapping with one of logPattern, nodeCondition, podCondition, and reason"),
    ("{reason: GPUUnhealthy}", "entry 1: must have exactly one of logPattern, nodeCondition, podCondition, not none"),
    (
        f"{{{LINE}, {NODE}}}",
        "entry 1: must have exactly one of logPattern, nodeCondition, podCondition, not logPattern and",
    ),
    ("{logPattern: fell off}", "entry 1.reason: is required"),
    (f"{{{NODE}, reason: DiskOnFire}}", "entry 1.reason: must be one of CasesFailed, CasesCrashed"),
    (f"{{{NODE}, reason: AllCasesPassed}}", "entry 1.reason: must be one of CasesFailed"),
    (f"{{{NODE}, reason: Cancelled}}", "entry 1.reason: must be one of CasesFailed"),
    (f"{{{LINE}, verdict: Passed}}", "entry 1.verdict: must be one of InfraFailed, Errored, TestsFailed, not 'Passed'"),
    (f"{{{LINE}, retry: maybe}}", "entry 1.retry: must be one of true, false, not 'maybe'"),
    (f"{{{LINE}, blame: 1}}", "entry 1.blame: must be a string"),
    (f"{{{LINE}, message: {'x' * 513}}}", "entry 1.message: must have at most 512 characters, not 513"),
    (f"{{{LINE}, mesage: sick}}", "entry 1.mesage: is unknown; did you mean message?"),  # codespell:ignore mesage
    (f"{{{LINE}, reason: Disrupted}}", "'reason' is written twice"),
    ("{logPattern: '', reason: GPUUnhealthy}", "entry 1.logPattern: must have at least 1 character"),
    (f"{{logPattern: {'x' * 513}, reason: GPUUnhealthy}}", "entry 1.logPattern: must have at most 512 characters"),
    ("{logPattern: 79, reason: GPUUnhealthy}", "entry 1.logPattern: must be a string"),
    ("{logPattern: '(a', reason: GPUUnhealthy}", "is not a valid RE2 regular expression (missing ): (a)"),
    ("{logPattern: 'a*', reason: GPUUnhealthy}", "matches the empty text, and therefore every line"),
    ("{logPattern: '^', reason: GPUUnhealthy}", "matches the empty text, and therefore every line"),
    (r"{logPattern: '\b', reason: GPUUnhealthy}", "matches the empty text, and therefore every line"),
    (
        "{logPattern: 'a(?=b)', reason: GPUUnhealthy}",
        "is not a valid RE2 regular expression (invalid perl operator: (?=)",
    ),
    (r"{logPattern: '(a)\1', reason: GPUUnhealthy}", "is not a valid RE2 regular expression (invalid escape sequence"),
    (
        "{logPattern: '(a{999}){999}', reason: GPUUnhealthy}",
        "is not a valid RE2 regular expression (invalid repetition",
    ),
    (
        "{nodeCondition: GpuSick, reason: GPUUnhealthy}",
        "entry 1.nodeCondition: must be a mapping with type, status, reason",
    ),
    ("{nodeCondition: {status: 'True'}, reason: GPUUnhealthy}", "entry 1.nodeCondition.type: is required"),
    ("{nodeCondition: {type: GpuSick}, reason: GPUUnhealthy}", "entry 1.nodeCondition.status: is required"),
    (
        "{nodeCondition: {type: GpuSick, status: Yes!}, reason: GPUUnhealthy}",
        "entry 1.nodeCondition.status: must be one of True, False, Unknown, not 'Yes!'",
    ),
    ("{nodeCondition: {type: a b, status: 'True'}, reason: GPUUnhealthy}", "write the type of a condition, like"),
    (
        "{nodeCondition: {type: A, status: 'True', reason: not so}, reason: GPUUnhealthy}",
        "write the reason of a condition, like",
    ),
    (
        "{podCondition: {type: Ready, status: Unknown}, reason: PodKilled}",
        "entry 1.podCondition.status: must be one of True, False, not 'Unknown'",
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


def test_all_problems_are_reported_at_once_with_the_number_of_their_entry() -> None:
    found = problems(f"- {{{LINE}}}\n- {{{LINE}, verdict: Hung}}\n- {{logPattern: '[', reason: Nope}}\n")
    assert [problem.partition(":")[0] for problem in found] == [
        "entry 2.verdict",
        "entry 3.reason",
        "entry 3.logPattern",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must be a list of at most 256 rules"),
        (f"{{{LINE}}}", "must be a list of at most 256 rules"),
        (f"- {{{LINE}}}\n" * 257, "must be a list of at most 256 rules"),
        ("- {", "the file is not valid YAML: "),
        ("- !!python/object:os.system {}", "the file is not valid YAML: "),
        ("#" * (1 << 18) + "\n[]", "the file is too large; it must have at most 262144 bytes"),
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
    assert parse(f"- {entry}") == (UserRule(sign=sign, reason=Reason.GPU_UNHEALTHY, **changes),)


SIGNS = [
    ("nodeCondition: {type: A, status: 'True'}", ConditionSign(of_node=True, type="A", status=ConditionStatus.TRUE)),
    ("nodeCondition: {type: A, status: True}", ConditionSign(of_node=True, type="A", status=ConditionStatus.TRUE)),
    (
        "nodeCondition: {type: a.b/C, status: 'False'}",
        ConditionSign(of_node=True, type="a.b/C", status=ConditionStatus.FALSE),
    ),
    (
        "nodeCondition: {type: A, status: Unknown}",
        ConditionSign(of_node=True, type="A", status=ConditionStatus.UNKNOWN),
    ),
    (
        "nodeCondition: {type: A, status: 'True', reason: B}",
        ConditionSign(of_node=True, type="A", status=ConditionStatus.TRUE, reason="B"),
    ),
    (
        "podCondition: {type: A, status: false, reason: B}",
        ConditionSign(of_node=False, type="A", status=ConditionStatus.FALSE, reason="B"),
    ),
    (r"logPattern: 'Xid \(.{1,80}\): 79'", LogPattern(r"Xid \(.{1,80}\): 79")),
    ("logPattern: '(?i)a(b|c)+d.*e'", LogPattern("(?i)a(b|c)+d.*e")),
    (r"logPattern: '[(*+]\+\*x(y+)?'", LogPattern(r"[(*+]\+\*x(y+)?")),
]


@pytest.mark.parametrize(("written", "sign"), SIGNS, ids=[written for written, _ in SIGNS])
def test_a_sign_is_read_as_it_is_meant(written: str, sign: LogPattern | ConditionSign) -> None:
    [rule] = parse(f"- {{{written}, reason: NodeLost}}")
    assert rule.sign == sign


def test_an_empty_list_is_no_rules() -> None:
    assert parse("[]") == ()


def test_every_reason_of_a_run_that_did_not_pass_may_be_given() -> None:
    assert set(Reason) - set(user_rules.REASONS) == {Reason.ALL_CASES_PASSED, Reason.CANCELLED}


def test_the_sample_is_read() -> None:
    text = yaml.safe_load(SAMPLE.read_text())["data"]["rules.yaml"]
    rules = parse(text)
    assert {getattr(rule.sign, "of_node", None) for rule in rules} == {None, True, False}
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
    [rule] = build([{"logPattern": pattern, "reason": "GPUUnhealthy"}])
    assert isinstance(rule.sign, LogPattern)
    started = time.process_time()
    assert not rule.sign.is_in(line)
    assert time.process_time() - started < 1


def test_halves_of_surrogate_pairs_are_searched_too() -> None:
    assert LogPattern("fell off").is_in("\ud800 fell off")
    with pytest.raises(PatternError, match="is not a valid RE2 regular expression"):
        LogPattern("\ud800")
