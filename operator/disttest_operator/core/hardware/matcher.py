"""Matching of hardware rules against lines of logs and reports, and conditions of nodes and pods."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from disttest_contract import limits
from disttest_contract.results.report import Report
from disttest_contract.transport import frames
from disttest_operator.core.hardware.user_rules import ConditionSign, LogPattern, UserRule
from disttest_operator.core.observed.evidence import Match
from disttest_operator.core.observed.objects import Condition, NodeView, PodView

LINE_CHARACTERS = 4096  # the rest of a line is not searched
NOT_EMPTY = re.compile(rb"[^\n]+")  # a log may have millions of empty lines
RANK_PREFIX = re.compile(r"\[rank (\d{1,6})\] ")
ZYGOTE_PREFIX = "[zygote] "  # the line was written in the pod that has the log, like that of a rank


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """`index`: the node index against which the line is evidence; None if it may be about another node."""

    text: str
    index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The evidence of one attempt at its end."""

    gang: tuple[PodView, ...]
    lines: tuple[LogLine, ...] = ()
    nodes: Mapping[str, Mapping[str, Condition]] = field(default_factory=dict)  # conditions by name of node

    def pod(self, index: int | None) -> PodView | None:
        return next((pod for pod in self.gang if pod.index == index), None)


def collect(pods: Iterable[PodView], nodes: Iterable[NodeView], lines: Iterable[LogLine]) -> Signs:
    return Signs(gang=tuple(pods), lines=tuple(lines), nodes={node.name: node.conditions for node in nodes})


def of_log(log: bytes, index: int, ranks_per_node: int) -> Iterator[LogLine]:
    """Lines of the log of the pod with this node index, one at a time, without the frames of a report.

    Lines of the runner itself may be about any node. Only newlines separate lines: a rank may write other separators.
    """
    for found in NOT_EMPTY.finditer(log):
        raw = log[found.start() : min(found.end(), found.start() + 4 * LINE_CHARACTERS)]
        text = raw.decode(errors="replace")
        if text.startswith(frames.MARK):
            continue
        rank = RANK_PREFIX.match(text)
        if rank:
            source: int | None = int(rank[1]) // ranks_per_node
        else:
            source = index if text.startswith(ZYGOTE_PREFIX) else None
        yield LogLine(text=text[:LINE_CHARACTERS], index=source)


def of_report(report: Report) -> Iterator[LogLine]:
    """Lines of the messages of failed cases: each is that of the first rank that failed."""
    for _, case in report.failures:
        index = case.ranks[0] // report.ranks_per_node if case.ranks else None
        for text in case.message.splitlines():
            yield LogLine(text=text[:LINE_CHARACTERS], index=index)


MAX_LINES_PER_RULE = 64  # in one log
SHOWN_BYTES = 300  # of a line or of a condition's message
UNNAMED = "a rule of the operator's configuration matches"

IsLate = Callable[[], bool]
_Proof = tuple[str, PodView | None]  # in words; no pod for a line that may be about any pod


def first_match(rules: Iterable[UserRule], signs: Signs, is_late: IsLate = lambda: False) -> Match | None:
    """The match of the first rule that matches. Lines are searched until `is_late`, which is called before each."""
    return next((match for rule in rules if (match := find_match(rule, signs, is_late))), None)


def matching_lines(
    rules: Iterable[UserRule], lines: Iterable[LogLine], is_late: IsLate = lambda: False
) -> Iterator[LogLine]:
    """The lines that match a rule's pattern, at most MAX_LINES_PER_RULE for each rule."""
    left = {rule.sign: MAX_LINES_PER_RULE for rule in rules if isinstance(rule.sign, LogPattern)}
    for line in itertools.takewhile(lambda _: not is_late(), lines):
        sign = next((sign for sign in left if sign.is_in(line.text)), None)
        if sign is None:
            continue
        yield line
        left[sign] -= 1
        if not left[sign]:
            del left[sign]


def find_match(rule: UserRule, signs: Signs, is_late: IsLate = lambda: False) -> Match | None:
    """The message has the first proof; the nodes of all proofs are at fault if the rule blames."""
    proofs = list(_proofs(rule, signs, is_late))
    if not proofs:
        return None
    blamed = (pod.node for _, pod in proofs if pod and pod.node and rule.blame)
    return Match(
        verdict=rule.verdict,
        reason=rule.reason,
        message=f"{rule.message or UNNAMED}: {proofs[0][0]}",
        retry=rule.retry,
        nodes=tuple(dict.fromkeys(blamed)),
    )


def _proofs(rule: UserRule, signs: Signs, is_late: IsLate) -> Iterator[_Proof]:
    match rule.sign:
        case LogPattern() as pattern:
            lines = itertools.takewhile(lambda _: not is_late(), signs.lines)
            return (_line_proof(line, signs) for line in lines if pattern.is_in(line.text))
        case ConditionSign() as sign:
            return _condition_proofs(sign, signs)


def _line_proof(line: LogLine, signs: Signs) -> _Proof:
    pod = signs.pod(line.index)
    source = f"{pod.where} logged" if pod else "the leader's log contains"
    return f"{source} {limits.cut(line.text.strip(), SHOWN_BYTES)!r}", pod


def _condition_proofs(sign: ConditionSign, signs: Signs) -> Iterator[_Proof]:
    for pod in signs.gang:
        condition = (signs.nodes.get(pod.node, {}) if sign.of_node else pod.conditions).get(sign.type)
        if condition and condition.status is sign.status and sign.reason in {"", condition.reason}:
            subject = f"node {pod.node}" if sign.of_node else pod.where
            because = limits.cut(": ".join(filter(None, (condition.reason, condition.message))), SHOWN_BYTES)
            yield f"{subject} has {sign.type}={sign.status}" + (f" ({because})" if because else ""), pod
