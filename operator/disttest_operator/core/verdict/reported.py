"""Rules that take verdict and reason from the leader's report, a termination message or a hardware rule."""

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.observed.evidence import Evidence, ReportFound, ReportLost
from disttest_operator.core.verdict import report_check
from disttest_operator.core.verdict.report_check import conclusion
from disttest_operator.core.verdict.rule import Ending, ReportedRule, Retry

UNSUCCESSFUL = frozenset({Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT, Verdict.ERRORED, Verdict.INFRA_FAILED})
RETRIABLE = frozenset(  # reported reasons that may not affect another gang
    {
        Reason.RENDEZVOUS_TIMEOUT,
        Reason.GANG_LOST,
        Reason.GANG_FAILED_TO_START,
        Reason.GPU_UNHEALTHY,
        Reason.INSUFFICIENT_GPUS,  # inside the pod: the device plugin provided fewer than requested
        Reason.TERMINATED,
    }
)


def known_sign(evidence: Evidence) -> Ending | None:
    """A failed run on hardware that is proven to be broken is a failure of the hardware."""
    match = evidence.seen.search.match if evidence.seen.search else None
    if match is None:
        return None
    nodes = {pod.node for pod in evidence.pods}
    return Ending(
        verdict=match.verdict,
        reason=match.reason,
        message=match.message,
        retry=Retry.CHARGED if match.retry else Retry.NEVER,
        blamed=tuple(node for node in match.nodes if node in nodes),
    )


def reported_result(evidence: Evidence) -> Ending | None:
    """The leader finished: the cases decide, whatever happens to the pods afterwards."""
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
    if verdict is Verdict.PASSED and (
        unproven := report_check.unproven_transport(found.report, evidence.test.spec.transport)
    ):
        return Ending(verdict=Verdict.INFRA_FAILED, reason=Reason.WRONG_TRANSPORT, message=unproven)
    return Ending(verdict=verdict, reason=reason, message=found.report.message or str(found.report.counts.to_json()))


def reported_early_end(evidence: Evidence) -> Ending | None:
    """The leader ended the run early and reported why; evidence from the pods has precedence."""
    found = evidence.report
    if not isinstance(found, ReportFound):
        return None
    verdict, reason = conclusion(found.report)
    message = found.report.message or f"The leader ended the run early: {reason}"
    return Ending(
        verdict=verdict,
        reason=reason,
        message=message,
        retry=_retry(verdict, reason),
        blamed=_nodes_at_fault(evidence, found.report.at_fault),
    )


def termination_message(evidence: Evidence) -> Ending | None:
    """There is no report, but an agent's termination message has a verdict other than Passed."""
    if isinstance(evidence.seen.report, ReportLost) and evidence.seen.report.is_invalid:
        return None
    for pod in filter(None, (evidence.leader, *evidence.ended_pods)):
        summary = pod.exit.summary if pod.exit else None
        if summary and summary.uid == evidence.test.uid and summary.verdict in UNSUCCESSFUL and summary.reason:
            words = summary.message or summary.first_failure or "no details"
            message = f"The leader's report is lost. Termination message of {pod.where}: {words}"
            retry = _retry(summary.verdict, summary.reason)
            return Ending(verdict=summary.verdict, reason=summary.reason, message=message, retry=retry)
    return None


def _retry(verdict: Verdict, reason: Reason) -> Retry:
    is_retriable = verdict is Verdict.INFRA_FAILED and reason in RETRIABLE
    return Retry.CHARGED if is_retriable else Retry.NEVER


def _nodes_at_fault(evidence: Evidence, indexes: tuple[int, ...]) -> tuple[str, ...]:
    """Nodes of these pods as Kubernetes has them, not the report; a deleted pod is no evidence against its node."""
    pods = [pod for pod in evidence.pods if pod.index in indexes and pod.has_started and not pod.is_deleting]
    return tuple(dict.fromkeys(pod.node for pod in pods if pod.node))


SIGNS = (ReportedRule(find=known_sign),)  # searched only if the other rules do not give Passed
RESULT = (ReportedRule(find=reported_result),)
