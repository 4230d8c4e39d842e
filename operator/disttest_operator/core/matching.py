"""Whether a rule of the operator's configuration matches what an attempt left behind. Pure; time is passed in."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from disttest_contract import limits
from disttest_operator.core.evidence import Match
from disttest_operator.core.signs import Line, Member, Signs
from disttest_operator.core.user_rules import LogPattern, NodeCondition, PodCondition, Status, UserRule
from disttest_operator.core.views import Condition

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
    return next((match for rule in rules if (match := find(rule, signs, is_late))), None)


def telling(rules: Iterable[UserRule], lines: Iterable[Line], is_late: IsLate = lambda: False) -> Iterator[Line]:
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


def find(rule: UserRule, signs: Signs, is_late: IsLate = lambda: False) -> Match | None:
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


def _in_time(lines: tuple[Line, ...], is_late: IsLate) -> Iterator[Line]:
    return itertools.takewhile(lambda _: not is_late(), lines)


def _read(line: Line, signs: Signs) -> _Proof:
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


def _status(condition: Condition) -> Status:
    if not condition.is_known:
        return Status.UNKNOWN
    return Status.TRUE if condition.is_true else Status.FALSE


def _tell(wanted: NodeCondition | PodCondition, member: Member, condition: Condition) -> _Proof:
    who = f"node {member.node}" if isinstance(wanted, NodeCondition) else member.where
    because = limits.cut(": ".join(filter(None, (condition.reason, condition.message))), SHOWN_BYTES)
    has = f"{wanted.type}={wanted.status}" + (f" ({because})" if because else "")
    return _Proof(words=f"{who} has {has}", member=member)
