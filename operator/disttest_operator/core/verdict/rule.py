"""A rule maps the evidence to an ending or to None; in a table the first match decides."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.text import escaping
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.observed.objects import PodView

MESSAGE_BYTES = 4096


class Retry(StrEnum):
    """Whether the run gets another gang after this ending."""

    NEVER = "never"
    CHARGED = "charged"  # the infrastructure failed: one of spec.retries.infrastructure
    FREE = "free"  # nothing failed: the run was suspended, or released its nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The result of an attempt. The message states what happened, where, and the next step.

    `blamed` are the nodes with direct evidence against them, never the whole gang.
    """

    verdict: Verdict
    reason: Reason
    message: str
    retry: Retry = Retry.NEVER
    blamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMatch:
    message: str
    pods: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`find` returns the message if the rule matches. With `blames` the nodes of the matching pods are avoided."""

    reason: Reason
    verdict: Verdict
    find: Callable[[Evidence], str | RuleMatch | None]
    retry: Retry = Retry.NEVER
    blames: bool = False


def node_fault(reason: Reason, find: Callable[[Evidence], RuleMatch | None]) -> Rule:
    """A rule for failures of a node: the run gets another attempt, which avoids that node."""
    return Rule(reason=reason, verdict=Verdict.INFRA_FAILED, find=find, retry=Retry.CHARGED, blames=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRule:
    """A rule whose `find` also determines verdict and reason."""

    find: Callable[[Evidence], Ending | None]


def first_match(rules: tuple[Rule | ReportedRule, ...], evidence: Evidence) -> Ending | None:
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
