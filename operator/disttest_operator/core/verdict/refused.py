"""Rules for runs without a complete gang: rejected before its creation, or stuck while it starts."""

from disttest_contract.gang import suites
from disttest_contract.gang.quarantine import NOTHING
from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.api import allowances
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence, ReportFound
from disttest_operator.core.observed.objects import PodView
from disttest_operator.core.verdict import capacity
from disttest_operator.core.verdict.capacity import not_started, unbound, wait_in_words, why_waiting
from disttest_operator.core.verdict.rule import Retry, Rule, RuleMatch, node_fault
from disttest_operator.core.workload import run_plan

# Waiting reasons of the kubelet. A wrong name or configuration stays wrong; the others may recover.
IMAGE_NAME_WRONG = frozenset({"InvalidImageName", "ErrImageNeverPull"})
IMAGE_AWAY = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
CONFIG_WRONG = frozenset({"CreateContainerConfigError"})
CONFIG_DOUBTFUL = frozenset({"CreateContainerError", "RunContainerError", "PostStartHookError"})


def invalid_spec(evidence: Evidence) -> str | None:
    return "; ".join(evidence.seen.problems) or None


def too_large_plan(evidence: Evidence) -> str | None:
    """Admission only limits each suite, not the sum of all."""
    if evidence.seen.job:
        return None
    known = evidence.seen.quarantine
    plan = run_plan.run_plan(evidence.test, evidence.test.attempt, known.lists if known else NOTHING)
    return run_plan.excess(plan) or None


def bad_quarantine(evidence: Evidence) -> str | None:
    """A partly read list would make verdicts random."""
    known = evidence.seen.quarantine
    if known is None or not known.problem:
        return None
    name = evidence.test.spec.quarantine.config_map
    return f"spec.quarantine: ConfigMap {name!r}: {known.problem}. Correct it, then create the DistTest again."


def not_allowed(evidence: Evidence) -> str | None:
    """A gang that was allowed when it was created continues: a revoked allowance only affects the next one."""
    if evidence.seen.job or evidence.test.has_begun:
        return None
    return "; ".join(allowances.refusals(evidence.test, evidence.policy.allowed)) or None


def unknown_suite(evidence: Evidence) -> str | None:
    unknown = run_plan.unknown_suites(evidence.test.spec)
    if not unknown or evidence.seen.job:
        return None
    named = ", ".join(repr(name) for name in unknown)
    return f"spec.suites: this version has no suite {named}. Its suites: {suites.known()}"


def name_taken(evidence: Evidence) -> str | None:
    taken = evidence.seen.taken
    return f"{taken} exists and does not belong to this run. Delete it, or rename the DistTest." if taken else None


def creation_refused(evidence: Evidence) -> str | None:
    """Rejected by a quota, an admission policy or the operator's permissions."""
    refused = evidence.seen.refused
    return f"{refused}. Change the quota or policy of the namespace, or the DistTest." if refused else None


def reference_missing(evidence: Evidence) -> str | None:
    missing = evidence.seen.missing
    if not missing:
        return None
    kind, path, namespace = missing[0].kind, missing[0].path, evidence.test.namespace
    names = ", ".join(repr(one.name) for one in missing if one.path == path)
    return f"{path}: {kind} {names} does not exist in namespace {namespace!r}. Create it, then the DistTest again."


def never_enough_gpus(evidence: Evidence) -> str | None:
    if not evidence.policy.fixed_nodes or evidence.seen.nodes is None or evidence.has_whole_gang:
        return None
    return capacity.shortage(evidence.test, evidence.seen.nodes) or None


def pods_refused(evidence: Evidence) -> str | None:
    """A quota, PodSecurity or an admission webhook rejects pods, which only events of the Job show."""
    if len(evidence.pods) >= evidence.test.spec.nodes:
        return None
    refused = [event for event in evidence.seen.events or () if event.reason == "FailedCreate"]
    if not refused:
        return None
    return f"Pods are rejected: {refused[-1].message}. Change the quota or policy of the namespace, or the DistTest."


def image_unavailable_on_a_node(evidence: Evidence) -> RuleMatch | None:
    """Other pods of the gang have the image, so neither its name nor the registry is at fault."""
    pod = _waiting_too_long(evidence, IMAGE_AWAY, evidence.policy.image_pull_timeout_seconds)
    if pod is None or not any(other.has_started for other in evidence.pods):
        return None
    message = f"Image {pod.waiting_image!r} cannot be pulled for {pod.where} ({wait_in_words(pod)})"
    return RuleMatch(message=f"{message}, although other pods of the gang have it. Check the node.", pods=(pod,))


def image_unavailable(evidence: Evidence) -> str | None:
    """Soon if the name of the image is invalid, else after the registry had time to recover."""
    policy = evidence.policy
    pod = _waiting_too_long(evidence, IMAGE_NAME_WRONG, policy.config_patience_seconds) or _waiting_too_long(
        evidence, IMAGE_AWAY, policy.image_pull_timeout_seconds
    )
    if pod is None:
        return None
    test, image = evidence.test, pod.waiting_image or evidence.test.spec.image
    is_own = test.has_own_image and image == test.spec.image
    source = "spec.image" if is_own else "--runner-image of the operator"
    return (
        f"Image {image!r} cannot be pulled for {pod.where} ({wait_in_words(pod)}). "
        f"Check {source} and spec.template.spec.imagePullSecrets."
    )


def container_config(evidence: Evidence) -> str | None:
    policy = evidence.policy
    pod = _waiting_too_long(evidence, CONFIG_WRONG, policy.config_patience_seconds) or _waiting_too_long(
        evidence, CONFIG_DOUBTFUL, policy.image_pull_timeout_seconds
    )
    if pod is None:
        return None
    return f"The container of {pod.where} cannot be created ({wait_in_words(pod)}). Correct what the message names."


def too_few_gpus(evidence: Evidence) -> str | None:
    if not _has_queued_too_long(evidence) or evidence.seen.nodes is None:
        return None
    sentence = capacity.shortage(evidence.test, evidence.seen.nodes)
    return (
        f"The GPUs did not suffice within queueSeconds ({evidence.test.spec.timeouts.queue_seconds}). {sentence}"
        if sentence
        else None
    )


def half_gang(evidence: Evidence) -> str | None:
    """Two runs with half of the nodes each would wait for each other forever: the younger one releases its nodes."""
    policy = evidence.policy
    patience = policy.rival_patience_seconds if evidence.seen.has_older_rival else policy.partial_gang_timeout_seconds
    if not evidence.has_passed(evidence.half_since, patience) and not _has_leader_given_up(evidence):
        return None
    return (
        f"The gang released its nodes, because some of its pods have none: {unbound(evidence) or why_waiting(evidence)}"
    )


def queue_timeout(evidence: Evidence) -> str | None:
    job = evidence.seen.job
    is_waiting = not evidence.pods and (job is None or job.is_suspended) and not evidence.test.spec.suspend
    if not is_waiting or evidence.now < evidence.queue_deadline:
        return None
    seconds = evidence.test.spec.timeouts.queue_seconds
    return (
        f"The run exceeded queueSeconds ({seconds}): {why_waiting(evidence).rstrip('. ')}. "
        "Free nodes, or increase spec.timeouts.queueSeconds."
    )


def gang_timeout(evidence: Evidence) -> str | None:
    records = evidence.test.records
    if not _has_queued_too_long(evidence):
        if queue_timeout(evidence) and records and records[-1]["reason"] == Reason.GANG_TIMEOUT:
            return f"The run exceeded queueSeconds after {attempts.words(records[-1])}"
        return None
    seconds, nodes = evidence.test.spec.timeouts.queue_seconds, evidence.test.spec.nodes
    running = sum(pod.has_started for pod in evidence.pods)
    return (
        f"The run exceeded queueSeconds ({seconds}) with {running} of {nodes} pods running: "
        f"{(unbound(evidence) or why_waiting(evidence)).rstrip('. ')}. "
        "Free nodes, or increase spec.timeouts.queueSeconds."
    )


def _has_queued_too_long(evidence: Evidence) -> bool:
    job = evidence.seen.job
    if evidence.has_whole_gang or job is None or job.is_suspended:
        return False
    return evidence.now >= evidence.queue_deadline


def _has_leader_given_up(evidence: Evidence) -> bool:
    """Whether the leader reported that it waited too long for the others."""
    found = evidence.report
    if evidence.has_whole_gang or not isinstance(found, ReportFound):
        return False
    return found.report.reason is Reason.RENDEZVOUS_TIMEOUT


def _waiting_too_long(evidence: Evidence, reasons: frozenset[str], seconds: int) -> PodView | None:
    waiting = (pod for pod in not_started(evidence.pods) if pod.waiting_reason in reasons)
    return next((pod for pod in waiting if evidence.has_passed(pod.waiting_since, seconds)), None)


BEFORE_CREATION = (
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=invalid_spec),
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=too_large_plan),
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=bad_quarantine),
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=not_allowed),
    Rule(reason=Reason.UNKNOWN_SUITE, verdict=Verdict.ERRORED, find=unknown_suite),
    Rule(reason=Reason.NAME_CONFLICT, verdict=Verdict.ERRORED, find=name_taken),
    Rule(reason=Reason.PODS_FORBIDDEN, verdict=Verdict.ERRORED, find=creation_refused),
    Rule(reason=Reason.REFERENCE_NOT_FOUND, verdict=Verdict.ERRORED, find=reference_missing),
    Rule(reason=Reason.INSUFFICIENT_GPUS, verdict=Verdict.ERRORED, find=never_enough_gpus),
)
WHILE_STARTING = (
    node_fault(Reason.IMAGE_UNAVAILABLE, image_unavailable_on_a_node),
    Rule(reason=Reason.IMAGE_UNAVAILABLE, verdict=Verdict.ERRORED, find=image_unavailable),
    Rule(reason=Reason.CONTAINER_CONFIG_ERROR, verdict=Verdict.ERRORED, find=container_config),
    Rule(reason=Reason.PODS_FORBIDDEN, verdict=Verdict.ERRORED, find=pods_refused),
    Rule(reason=Reason.INSUFFICIENT_GPUS, verdict=Verdict.ERRORED, find=too_few_gpus),
    Rule(reason=Reason.GANG_TIMEOUT, verdict=Verdict.INFRA_FAILED, find=gang_timeout),
    Rule(reason=Reason.QUEUE_TIMEOUT, verdict=Verdict.INFRA_FAILED, find=queue_timeout),
    Rule(reason=Reason.GANG_TIMEOUT, verdict=Verdict.INFRA_FAILED, find=half_gang, retry=Retry.FREE),
)
