"""Rules that take verdict and reason from what somebody said: the leader, an agent, a rule of the configuration."""

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.observed.evidence import Evidence, ReportFound, ReportLost
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.verdict import report_check
from disttest_operator.core.verdict.report_check import conclusion
from disttest_operator.core.verdict.rule import Ending, ReportedRule, Retry

RED_OR_CONFIG = frozenset(
    {Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT, Verdict.ERRORED, Verdict.INFRA_FAILED}
)


# What a leader says that another gang may be spared; the others would only meet the same again.
WORTH_ANOTHER_GANG = frozenset(
    {
        Reason.RENDEZVOUS_TIMEOUT,
        Reason.GANG_LOST,
        Reason.GANG_FAILED_TO_START,
        Reason.GPU_BROKEN,
        Reason.TOO_FEW_GPUS,  # seen from inside: the device plugin gave fewer than it promised
        Reason.TERMINATED,
    }
)


def known_sign(evidence: Evidence) -> Ending | None:
    """A rule of the operator's configuration: red on hardware that is proven to be broken is the hardware's."""
    match = evidence.seen.search.match if evidence.seen.search else None
    if match is None:
        return None
    here = {pod.node for pod in evidence.pods}
    return Ending(
        verdict=match.verdict,
        reason=match.reason,
        message=match.message,
        retry=Retry.CHARGED if match.retry else Retry.NEVER,
        blamed=tuple(node for node in match.nodes if node in here),
    )


def reported_result(evidence: Evidence) -> Ending | None:
    """The leader came to its end: what the cases came to, whatever happens to the pods afterwards."""
    found = evidence.report
    if not isinstance(found, ReportFound):
        return None
    verdict, reason = conclusion(found.report)
    if verdict in {Verdict.INFRA_FAILED, Verdict.CANCELLED}:
        return None
    if verdict is Verdict.PASSED and (
        missed := report_check.missed_thresholds(found.report, evidence.test.spec.thresholds)
    ):
        return Ending(verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, message=missed)
    return Ending(verdict=verdict, reason=reason, message=found.report.message or str(found.report.counts.to_json()))


def reported_trouble(evidence: Evidence) -> Ending | None:
    """The leader ended early and says why; it comes after what the pods themselves prove."""
    found = evidence.report
    if not isinstance(found, ReportFound) or not evidence.is_over:
        return None
    verdict, reason = conclusion(found.report)
    message = found.report.message or f"the leader gave up: {reason}"
    return Ending(
        verdict=verdict,
        reason=reason,
        message=message,
        retry=_retry(verdict, reason),
        blamed=_nodes_at_fault(evidence, found.report.at_fault),
    )


def told_in_passing(evidence: Evidence) -> Ending | None:
    """No report, but an agent's termination message says what went wrong. Green is never taken from there."""
    if not evidence.is_over or (isinstance(evidence.seen.report, ReportLost) and evidence.seen.report.is_invalid):
        return None
    for pod in _leader_first(evidence):
        summary = pod.exit.summary if pod.exit else None
        if summary and summary.uid == evidence.test.uid and summary.verdict in RED_OR_CONFIG and summary.reason:
            words = summary.message or summary.first_failure or "it says no more"
            message = f"the leader's report is lost; {pod.where} said: {words}"
            retry = _retry(summary.verdict, summary.reason)
            return Ending(verdict=summary.verdict, reason=summary.reason, message=message, retry=retry)
    return None


def _retry(verdict: Verdict, reason: Reason) -> Retry:
    is_worth = verdict is Verdict.INFRA_FAILED and reason in WORTH_ANOTHER_GANG
    return Retry.CHARGED if is_worth else Retry.NEVER


def _nodes_at_fault(evidence: Evidence, indexes: tuple[int, ...]) -> tuple[str, ...]:
    """Where we know these pods to be, whatever the report calls their nodes; a pod that a person deleted is no sign."""
    pods = [pod for pod in evidence.pods if pod.index in indexes and pod.has_started and not pod.is_deleting]
    return tuple(dict.fromkeys(pod.node for pod in pods if pod.node))


def _leader_first(evidence: Evidence) -> tuple[PodView, ...]:
    return (*((evidence.leader,) if evidence.leader else ()), *evidence.ended_pods)


SIGNS = (ReportedRule(find=known_sign),)  # looked for only where the others come to no pass


RESULT = (ReportedRule(find=reported_result),)
