"""Rules for gangs that have ended, from the final states of their pods, Job and agents."""

from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_operator.core.observed.evidence import Evidence, ReportLost
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.verdict.not_started import INCREASE_MEMORY, KILLED, SIGKILLED, how_it_ended
from disttest_operator.core.verdict.reported import reported_early_end, termination_message
from disttest_operator.core.verdict.rule import ReportedRule, Retry, Rule, RuleMatch, node_fault

NODE_GONE = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})  # disruptions of a lost node


def job_missing(evidence: Evidence) -> str | None:
    job = evidence.seen.job
    if not evidence.seen.is_job_gone and not (job and job.is_deleting):
        return None
    return "The Job of the run and its pods were deleted, not by the operator. Create the DistTest again."


def node_lost(evidence: Evidence) -> RuleMatch | None:
    pod = _disrupted(evidence, node_gone=True)
    if pod is None:
        return None
    return RuleMatch(message=f"The node of {pod.where} was lost ({_disruption(pod)}). Check the node.", pods=(pod,))


def disrupted(evidence: Evidence) -> str | None:
    pod = _disrupted(evidence, node_gone=False)
    if pod is None:
        return None
    return f"Kubernetes disrupted {pod.where} ({_disruption(pod)}). The tests are not at fault; run again."


def disrupted_by_job_status(evidence: Evidence) -> str | None:
    """The disrupted pod disappeared while no operator was running, perhaps on the same node; the Job has the reason."""
    is_over = evidence.is_over or not evidence.pods
    conditions = evidence.seen.job.conditions if evidence.seen.job and is_over else {}
    for name in ("FailureTarget", "Failed"):
        if name in conditions and conditions[name].reason == "PodFailurePolicy":
            return f"Kubernetes disrupted a pod ({conditions[name].message}). The tests are not at fault; run again."
    return None


def suspended(evidence: Evidence) -> str | None:
    """A queue or a user suspended the Job: its pods are deleted without a disruption condition.

    Another Job is needed, since finished indexes do not run again in this one. Only ending pods prove it: a Job
    that was just admitted may have new pods while the cached Job is still suspended.
    """
    job = evidence.seen.job
    if evidence.test.spec.suspend and job:
        return "spec.suspend ended the attempt. Another attempt starts when spec.suspend is false."
    if not job or not job.is_suspended or not any(pod.is_ending for pod in evidence.all_pods):
        return None
    return "The Job was suspended while it was running, and its pods were ended. Another attempt waits for nodes."


def cancelled(evidence: Evidence) -> str | None:
    return "spec.cancel ended the run" if evidence.test.spec.cancel else None


def job_deadline(evidence: Evidence) -> str | None:
    """The Job's deadline is later than the operator's. It applies while no operator is running."""
    conditions = evidence.seen.job.conditions if evidence.seen.job else {}
    reasons = {conditions[name].reason for name in ("FailureTarget", "Failed") if name in conditions}
    if "DeadlineExceeded" not in reasons:
        return None
    return "The Job exceeded its deadline while no operator was running. Increase spec.timeouts.runSeconds."


def node_rejected_pod(evidence: Evidence) -> RuleMatch | None:
    for pod in evidence.lost_pods:
        if pod.reason == "UnexpectedAdmissionError" or pod.reason.startswith("OutOf"):
            message = f"The kubelet rejected {pod.where} ({pod.reason}: {pod.message}). Check the devices of the node."
            return RuleMatch(message=message, pods=(pod,))
    return None


def out_of_memory_in_case(evidence: Evidence) -> str | None:
    pod = _out_of_memory(evidence)
    case = case_in_flight(evidence)
    if pod is None or not case:
        return None
    return f"Out of memory in {pod.where} during {case}. {INCREASE_MEMORY}, or check the case."


def out_of_memory(evidence: Evidence) -> str | None:
    pod = _out_of_memory(evidence)
    return f"Out of memory in {pod.where}. {INCREASE_MEMORY}." if pod else None


def pod_killed(evidence: Evidence) -> RuleMatch | None:
    pod = next((pod for pod in evidence.ended_pods if pod.exit and pod.exit.code in KILLED), None)
    if pod is None or pod.exit is None:
        return None
    case = case_in_flight(evidence)
    how = f"exit code {pod.exit.code}{f', during {case}' if case else ''}"
    message = f"A signal from outside killed {pod.where} ({how}) for an unknown reason. Check the node."
    return RuleMatch(message=message, pods=(pod,) if pod.exit.code == SIGKILLED and not pod.is_deleting else ())


def pod_missing(evidence: Evidence) -> str | None:
    pod = next((pod for pod in evidence.lost_pods if pod.exit is None), None)
    return f"The gang lost {pod.where} for an unknown reason. Check the node, then run again." if pod else None


def report_invalid(evidence: Evidence) -> str | None:
    found = evidence.report
    return _with_advice(found.problem) if isinstance(found, ReportLost) and found.is_invalid else None


def report_missing(evidence: Evidence) -> str | None:
    """A leader that succeeded without a report does not pass the run."""
    found, leader = evidence.report, evidence.leader
    if not isinstance(found, ReportLost) or leader is None or leader.exit is None:
        return None
    if leader.exit.code not in set(ExitCode):
        return None
    return _with_advice(f"the leader ({leader.where}) ended with exit code {leader.exit.code}, but {found.problem}")


def runner_error(evidence: Evidence) -> str | None:
    for pod in evidence.ended_pods:
        if pod.exit:
            return _with_advice(f"the agent of {pod.where} ended with {how_it_ended(pod.exit)}")
    return "The gang ended for an unknown reason. Run again."


def run_deadline(evidence: Evidence) -> str | None:
    deadline = evidence.run_deadline
    if deadline is None or evidence.now < deadline:
        return None
    case = case_in_flight(evidence)
    return (
        f"The run exceeded rendezvousSeconds and runSeconds ({evidence.test.spec.timeouts.run_seconds}), and "
        f"the leader did not end it{f' (last known case: {case})' if case else ''}. Check the leader's log."
    )


def _with_advice(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}. Check the leader's log (kubectl logs), then run again."


def _disrupted(evidence: Evidence, *, node_gone: bool) -> PodView | None:
    if not evidence.is_over:
        return None
    pods = (pod for pod in evidence.all_pods if pod.disruption)
    return next((pod for pod in pods if pod.disruption and (pod.disruption.reason in NODE_GONE) is node_gone), None)


def _disruption(pod: PodView) -> str:
    return f"{pod.disruption.reason}: {pod.disruption.message}" if pod.disruption else ""


def _out_of_memory(evidence: Evidence) -> PodView | None:
    if not evidence.is_over:
        return None
    return next((pod for pod in evidence.ended_pods if pod.exit and pod.exit.reason == "OOMKilled"), None)


def case_in_flight(evidence: Evidence) -> str:
    leader = evidence.leader
    return leader.exit.summary.current if leader and leader.exit and leader.exit.summary else ""


CANCELLED = (Rule(reason=Reason.CANCELLED, verdict=Verdict.CANCELLED, find=cancelled),)
PROVEN_ENDS = (
    Rule(reason=Reason.SUSPENDED, verdict=Verdict.INFRA_FAILED, find=suspended, retry=Retry.FREE),
    Rule(reason=Reason.JOB_DELETED, verdict=Verdict.INFRA_FAILED, find=job_missing),
    node_fault(Reason.NODE_LOST, node_lost),
    Rule(reason=Reason.DISRUPTED, verdict=Verdict.INFRA_FAILED, find=disrupted, retry=Retry.CHARGED),
    Rule(reason=Reason.DISRUPTED, verdict=Verdict.INFRA_FAILED, find=disrupted_by_job_status, retry=Retry.CHARGED),
    Rule(reason=Reason.RUN_TIMEOUT, verdict=Verdict.TIMED_OUT, find=job_deadline),
    node_fault(Reason.NODE_REJECTED_POD, node_rejected_pod),
    Rule(reason=Reason.OUT_OF_MEMORY, verdict=Verdict.TESTS_FAILED, find=out_of_memory_in_case),
    Rule(reason=Reason.OUT_OF_MEMORY, verdict=Verdict.ERRORED, find=out_of_memory),
)
AFTER_THE_END = (
    node_fault(Reason.POD_KILLED, pod_killed),
    ReportedRule(find=reported_early_end),
    Rule(reason=Reason.POD_DELETED, verdict=Verdict.INFRA_FAILED, find=pod_missing, retry=Retry.CHARGED),
    Rule(reason=Reason.REPORT_INVALID, verdict=Verdict.INFRA_FAILED, find=report_invalid),
    ReportedRule(find=termination_message),
    Rule(reason=Reason.REPORT_MISSING, verdict=Verdict.INFRA_FAILED, find=report_missing, retry=Retry.CHARGED),
    Rule(reason=Reason.RUNNER_ERROR, verdict=Verdict.INFRA_FAILED, find=runner_error),
)
DEADLINE = (Rule(reason=Reason.RUN_TIMEOUT, verdict=Verdict.TIMED_OUT, find=run_deadline),)
