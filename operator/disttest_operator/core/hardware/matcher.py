"""What rules of the operator's configuration look at: lines of logs and reports, conditions of nodes and pods."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from disttest_contract import limits
from disttest_contract.results.report import Report
from disttest_contract.transport import frames
from disttest_operator.core.hardware.user_rules import (
    ConditionStatus,
    LogPattern,
    NodeCondition,
    PodCondition,
    UserRule,
)
from disttest_operator.core.observed.evidence import Match
from disttest_operator.core.observed.objects import Condition, NodeView, PodView

LINE_CHARACTERS = 4096  # of a line; the rest is not looked at
WRITTEN = re.compile(rb"[^\n]+")  # a log may be millions of empty lines
OF_A_RANK = re.compile(r"\[rank (\d{1,6})\] ")
OF_THE_POD = "[zygote] "  # what begins so was written in the pod whose log it is, as a rank's line was


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """`index`: the node index that it is proof against; None where it may speak of another node."""

    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A pod of the gang."""

    index: int
    pod: str
    node: str
    conditions: Mapping[str, Condition] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"pod {self.pod}" + (f" on node {self.node}" if self.node else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Of one attempt, at its end."""

    gang: tuple[Member, ...]
    lines: tuple[LogLine, ...] = ()
    nodes: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)  # conditions by name of node

    def member(self, index: int | None) -> Member | None:
        return next((member for member in self.gang if member.index == index), None)


def collect(pods: Iterable[PodView], nodes: Iterable[NodeView], lines: Iterable[LogLine]) -> Signs:
    """From what the operator keeps of pods and nodes."""
    return Signs(
        gang=tuple(Member(index=pod.index, pod=pod.name, node=pod.node, conditions=pod.conditions) for pod in pods),
        lines=tuple(lines),
        nodes={node.name: node.conditions for node in nodes},
    )


def of_log(log: bytes, index: int, ranks_per_node: int) -> Iterator[LogLine]:
    """Of the pod with this node index. What the runner says itself may be about any node; the report is not text.

    One after the other, and ended by newlines only: other ends of lines may be what a rank wrote.
    """
    for found in WRITTEN.finditer(log):
        raw = log[found.start() : min(found.end(), found.start() + 4 * LINE_CHARACTERS)]
        text = raw.decode(errors="replace")
        if text.startswith(frames.MARK):
            continue
        rank = OF_A_RANK.match(text)
        if rank:
            whose: int | None = int(rank[1]) // ranks_per_node
        else:
            whose = index if text.startswith(OF_THE_POD) else None
        yield LogLine(text=text[:LINE_CHARACTERS], index=whose)


def of_report(report: Report) -> Iterator[LogLine]:
    """Of cases that ended badly: a case's message is that of the first rank to blame."""
    for _, case in report.failures:
        index = case.ranks[0] // report.ranks_per_node if case.ranks else None
        for text in case.message.splitlines():
            yield LogLine(text=text[:LINE_CHARACTERS], index=index)


LINES_OF_A_RULE = 64  # in one log
SHOWN_BYTES = 300  # of a line or of a condition's message
UNNAMED = "a rule of the operator's configuration matches"

IsLate = Callable[[], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proof:
    """What was seen, and of whom; a line may be of nobody in particular."""

    words: str
    member: Member | None


def first_match(rules: Iterable[UserRule], signs: Signs, is_late: IsLate = lambda: False) -> Match | None:
    """Of several rules the first that matches. Lines are searched only until `is_late`, which is asked before each."""
    return next((match for rule in rules if (match := find_match(rule, signs, is_late))), None)


def matching_lines(
    rules: Iterable[UserRule], lines: Iterable[LogLine], is_late: IsLate = lambda: False
) -> Iterator[LogLine]:
    """The lines in which a rule finds its pattern: of each rule the first ones, of millions that it may find."""
    left = {rule.sign: LINES_OF_A_RULE for rule in rules if isinstance(rule.sign, LogPattern)}
    for line in itertools.takewhile(lambda _: not is_late(), lines):
        sign = next((sign for sign in left if sign.pattern.is_in(line.text)), None)
        if sign is None:
            continue
        yield line
        left[sign] -= 1
        if not left[sign]:
            del left[sign]


def find_match(rule: UserRule, signs: Signs, is_late: IsLate = lambda: False) -> Match | None:
    """The first proof is told, all of them are blamed if the rule blames."""
    proofs = list(_proofs(rule, signs, is_late))
    if not proofs:
        return None
    blamed = [proof.member for proof in proofs if proof.member and rule.blame]
    return Match(
        verdict=rule.verdict,
        reason=rule.reason,
        message=f"{rule.message or UNNAMED}: {proofs[0].words}",
        retry=rule.retry,
        nodes=tuple(dict.fromkeys(member.node for member in blamed if member.node)),
        pods=tuple(dict.fromkeys(member.pod for member in blamed)),
    )


def _proofs(rule: UserRule, signs: Signs, is_late: IsLate) -> Iterator[_Proof]:
    match rule.sign:
        case LogPattern(pattern=pattern):
            return (_read(line, signs) for line in _in_time(signs.lines, is_late) if pattern.is_in(line.text))
        case NodeCondition() | PodCondition() as wanted:
            held = ((member, _holds(wanted, _conditions(wanted, member, signs))) for member in signs.gang)
            return (_tell(wanted, member, condition) for member, condition in held if condition)


def _in_time(lines: tuple[LogLine, ...], is_late: IsLate) -> Iterator[LogLine]:
    return itertools.takewhile(lambda _: not is_late(), lines)


def _read(line: LogLine, signs: Signs) -> _Proof:
    member = signs.member(line.index)
    who = f"{member.where} said" if member else "the leader's log says"
    return _Proof(words=f"{who} {limits.cut(line.text.strip(), SHOWN_BYTES)!r}", member=member)


def _conditions(wanted: NodeCondition | PodCondition, member: Member, signs: Signs) -> Mapping[str, Condition]:
    return signs.nodes.get(member.node, {}) if isinstance(wanted, NodeCondition) else member.conditions


def _holds(wanted: NodeCondition | PodCondition, conditions: Mapping[str, Condition]) -> Condition | None:
    condition = conditions.get(wanted.type)
    if condition is None or _status(condition) is not wanted.status:
        return None
    return condition if wanted.reason in {"", condition.reason} else None


def _status(condition: Condition) -> ConditionStatus:
    if not condition.is_known:
        return ConditionStatus.UNKNOWN
    return ConditionStatus.TRUE if condition.is_true else ConditionStatus.FALSE


def _tell(wanted: NodeCondition | PodCondition, member: Member, condition: Condition) -> _Proof:
    who = f"node {member.node}" if isinstance(wanted, NodeCondition) else member.where
    because = limits.cut(": ".join(filter(None, (condition.reason, condition.message))), SHOWN_BYTES)
    has = f"{wanted.type}={wanted.status}" + (f" ({because})" if because else "")
    return _Proof(words=f"{who} has {has}", member=member)
