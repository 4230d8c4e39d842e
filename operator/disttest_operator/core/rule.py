"""The form of a rule: evidence in, ending or nothing out; in a table the first match wins."""

from collections.abc import Callable
from dataclasses import dataclass

from disttest_contract import limits
from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.evidence import Evidence

MESSAGE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the run came to. The message says what happened, where, and what to do."""

    verdict: Verdict
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`find` gives the message if the rule matches."""

    reason: Reason
    verdict: Verdict
    find: Callable[[Evidence], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A rule that takes verdict and reason from what the runner said."""

    find: Callable[[Evidence], Ending | None]


def first_match(rules: tuple[Rule | Told, ...], evidence: Evidence) -> Ending | None:
    """The ending of the first rule that matches."""
    for rule in rules:
        match rule:
            case Told():
                ending = rule.find(evidence)
            case Rule():
                message = rule.find(evidence)
                ending = Ending(verdict=rule.verdict, reason=rule.reason, message=message) if message else None
        if ending:
            return Ending(
                verdict=ending.verdict, reason=ending.reason, message=limits.cut(ending.message, MESSAGE_BYTES)
            )
    return None
