"""The form of a rule: evidence in, ending or nothing out; in a table the first match wins."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.text import escaping
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.observed.objects import PodView

MESSAGE_BYTES = 4096


class Retry(StrEnum):
    """Whether the run gets another gang after such an end of one."""

    NEVER = "never"
    CHARGED = "charged"  # the infrastructure failed: one of spec.retries.infrastructure
    FREE = "free"  # nothing failed: the nodes were taken away, or given back


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the attempt came to. The message says what happened, where, and what to do.

    `blamed` are the nodes on which there is direct evidence, never the whole gang.
    """

    verdict: Verdict
    reason: Reason
    message: str
    retry: Retry = Retry.NEVER
    blamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    """What a rule found, and in which pods."""

    message: str
    pods: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`find` gives the message if the rule matches; `blames`: the nodes of the pods that it found are to be avoided."""

    reason: Reason
    verdict: Verdict
    find: Callable[[Evidence], str | RuleMatch | None]
    retry: Retry = Retry.NEVER
    blames: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRule:
    """A rule that takes verdict and reason from what the runner said."""

    find: Callable[[Evidence], Ending | None]


def first_match(rules: tuple[Rule | ReportedRule, ...], evidence: Evidence) -> Ending | None:
    """The ending of the first rule that matches."""
    for rule in rules:
        ending = rule.find(evidence) if isinstance(rule, ReportedRule) else _apply(rule, evidence)
        if ending:
            return replace(ending, message=escaping.short_block(ending.message, MESSAGE_BYTES))
    return None


def _apply(rule: Rule, evidence: Evidence) -> Ending | None:
    found = rule.find(evidence)
    if not found:
        return None
    finding = RuleMatch(message=found) if isinstance(found, str) else found
    blamed = tuple(dict.fromkeys(pod.node for pod in finding.pods if pod.node)) if rule.blames else ()
    return Ending(verdict=rule.verdict, reason=rule.reason, message=finding.message, retry=rule.retry, blamed=blamed)
