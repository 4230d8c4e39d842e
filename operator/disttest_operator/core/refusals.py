"""Rules about runs whose gang did not come to be: refused before it was created, or never whole."""

from collections.abc import Iterable

from disttest_contract import suites
from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core import capacity, run_plan
from disttest_operator.core.evidence import ATTEMPT, Evidence, ReportFound
from disttest_operator.core.rule import Rule
from disttest_operator.core.views import PodView

# Waiting reasons of a container, as kubelets give them. What is wrong with a name is wrong for ever.
IMAGE_NAME_WRONG = frozenset({"InvalidImageName", "ErrImageNeverPull"})
IMAGE_AWAY = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
CONFIG_WRONG = frozenset({"CreateContainerConfigError"})
CONFIG_DOUBTFUL = frozenset({"CreateContainerError", "RunContainerError", "PostStartHookError"})


def invalid_spec(evidence: Evidence) -> str | None:
    return "; ".join(evidence.seen.problems) or None


def too_large_plan(evidence: Evidence) -> str | None:
    """Not refused at admission: what suites may have each is too much for all."""
    if evidence.seen.job:
        return None
    return run_plan.excess(run_plan.run_plan(evidence.test, ATTEMPT)) or None


def unknown_suite(evidence: Evidence) -> str | None:
    unknown = run_plan.unknown_suites(evidence.test.spec)
    if not unknown or evidence.seen.job:
        return None
    named = ", ".join(repr(name) for name in unknown)
    return f"spec.suites names {named}, which this version does not have; it has: {suites.known()}"


def name_taken(evidence: Evidence) -> str | None:
    taken = evidence.seen.taken
    return f"{taken} exists and is not of this run: delete it, or give the DistTest another name" if taken else None


def creation_refused(evidence: Evidence) -> str | None:
    """Quota, an admission policy, or the operator's own rights."""
    refused = evidence.seen.refused
    return f"{refused}. Change the namespace's quota or policy, or the DistTest" if refused else None


def config_map_missing(evidence: Evidence) -> str | None:
    return _missing(evidence, "ConfigMap", "spec.suites[].configMap.name")


def service_account_missing(evidence: Evidence) -> str | None:
    return _missing(evidence, "ServiceAccount", "spec.template.spec.serviceAccountName")


def claim_missing(evidence: Evidence) -> str | None:
    return _missing(evidence, "PersistentVolumeClaim", "spec.artifacts.persistentVolumeClaim")


def _missing(evidence: Evidence, kind: str, path: str) -> str | None:
    names = ", ".join(repr(missing.name) for missing in evidence.seen.missing or () if missing.kind == kind)
    namespace = evidence.test.namespace
    return f"{path}: {kind} {names} is not in namespace {namespace!r}; create it and apply again" if names else None


def never_enough_gpus(evidence: Evidence) -> str | None:
    """No node will be added, so there is no point in waiting."""
    if not evidence.policy.fixed_nodes or evidence.seen.nodes is None or evidence.has_whole_gang:
        return None
    return capacity.shortage(evidence.test, evidence.seen.nodes) or None


def pods_refused(evidence: Evidence) -> str | None:
    """Quota, PodSecurity, an admission webhook: the Job says so in events only."""
    if len(evidence.pods) >= evidence.test.spec.nodes:
        return None
    refused = [event for event in evidence.seen.events or () if event.reason == "FailedCreate"]
    if not refused:
        return None
    return f"pods are refused: {refused[-1].message}. Change the namespace's quota or policy, or the DistTest"


def image_unavailable(evidence: Evidence) -> str | None:
    """At once when the image's name can never be right, else when the registry had a second chance."""
    policy = evidence.policy
    pod = _waiting_too_long(evidence, IMAGE_NAME_WRONG, policy.config_patience_seconds) or _waiting_too_long(
        evidence, IMAGE_AWAY, policy.image_patience_seconds
    )
    if pod is None:
        return None
    test, image = evidence.test, pod.waiting_image or evidence.test.spec.image
    is_own = test.has_own_image and image == test.spec.image
    whose = "spec.image" if is_own else "the operator's --runner-image"
    return (
        f"image {image!r} cannot be had by {pod.where} ({_waiting(pod)}): "
        f"correct {whose} or spec.template.spec.imagePullSecrets"
    )


def container_config(evidence: Evidence) -> str | None:
    policy = evidence.policy
    pod = _waiting_too_long(evidence, CONFIG_WRONG, policy.config_patience_seconds) or _waiting_too_long(
        evidence, CONFIG_DOUBTFUL, policy.image_patience_seconds
    )
    return f"the container of {pod.where} cannot be made ({_waiting(pod)}): correct what it names" if pod else None


def too_few_gpus(evidence: Evidence) -> str | None:
    """Nodes might have been added in the meantime; none was."""
    if not _has_queued_too_long(evidence) or evidence.seen.nodes is None:
        return None
    sentence = capacity.shortage(evidence.test, evidence.seen.nodes)
    return (
        f"within queueSeconds ({evidence.test.spec.timeouts.queue_seconds} s) nothing changed: {sentence}"
        if sentence
        else None
    )


def queue_timeout(evidence: Evidence) -> str | None:
    if not _has_queued_too_long(evidence):
        return None
    seconds, nodes = evidence.test.spec.timeouts.queue_seconds, evidence.test.spec.nodes
    running = sum(pod.has_started for pod in evidence.pods)
    return (
        f"{running} of {nodes} pods had started when the wait ended (queueSeconds {seconds}): {why_waiting(evidence)}. "
        "Free nodes, or raise spec.timeouts.queueSeconds"
    )


def why_waiting(evidence: Evidence) -> str:
    """What holds the gang up, in the words of whoever holds it."""
    if evidence.seen.job is None:
        return "the Job does not exist yet"
    if evidence.seen.job.is_suspended:
        queue = evidence.test.spec.queue_name
        return f"the Job is suspended, waiting in queue {queue!r}" if queue else "the Job is suspended"
    for pod in _not_started(evidence.pods):
        scheduled = pod.conditions.get("PodScheduled")
        if not pod.is_scheduled:
            words = scheduled.message if scheduled and not scheduled.is_true else "no node was found yet"
            return f"{pod.where}: {words}"
        if pod.waiting_reason:
            return f"{pod.where}: {_waiting(pod)}{_last_event(evidence)}"
    missing = evidence.test.spec.nodes - len(evidence.pods)
    return f"{missing} pods have not been created{_last_event(evidence)}" if missing else "pods are starting"


def _last_event(evidence: Evidence) -> str:
    events = evidence.seen.events or ()
    return f" ({events[-1].reason} of {events[-1].about}: {events[-1].message})" if events else ""


def _has_queued_too_long(evidence: Evidence) -> bool:
    """The queue's deadline, or the leader gave up waiting for a pod that was never started."""
    if evidence.has_whole_gang or evidence.seen.job is None:
        return False
    found = evidence.report
    did_leader_give_up = isinstance(found, ReportFound) and found.report.reason is Reason.RENDEZVOUS_TIMEOUT
    return did_leader_give_up or evidence.now >= evidence.queue_deadline


def _not_started(pods: Iterable[PodView]) -> list[PodView]:
    return [pod for pod in pods if not pod.has_started and not pod.has_ended]


def _waiting_too_long(evidence: Evidence, reasons: frozenset[str], seconds: int) -> PodView | None:
    waiting = (pod for pod in _not_started(evidence.pods) if pod.waiting_reason in reasons)
    return next((pod for pod in waiting if evidence.has_passed(pod.waiting_since, seconds)), None)


def _waiting(pod: PodView) -> str:
    return f"{pod.waiting_reason}: {pod.waiting_message}" if pod.waiting_message else pod.waiting_reason


BEFORE_CREATION = (
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=invalid_spec),
    Rule(reason=Reason.INVALID_SPEC, verdict=Verdict.ERRORED, find=too_large_plan),
    Rule(reason=Reason.UNKNOWN_SUITE, verdict=Verdict.ERRORED, find=unknown_suite),
    Rule(reason=Reason.NAME_TAKEN, verdict=Verdict.ERRORED, find=name_taken),
    Rule(reason=Reason.PODS_REFUSED, verdict=Verdict.ERRORED, find=creation_refused),
    Rule(reason=Reason.CONFIG_MAP_MISSING, verdict=Verdict.ERRORED, find=config_map_missing),
    Rule(reason=Reason.SERVICE_ACCOUNT_MISSING, verdict=Verdict.ERRORED, find=service_account_missing),
    Rule(reason=Reason.CLAIM_MISSING, verdict=Verdict.ERRORED, find=claim_missing),
    Rule(reason=Reason.TOO_FEW_GPUS, verdict=Verdict.ERRORED, find=never_enough_gpus),
)
WHILE_STARTING = (
    Rule(reason=Reason.IMAGE_UNAVAILABLE, verdict=Verdict.ERRORED, find=image_unavailable),
    Rule(reason=Reason.CONTAINER_CONFIG, verdict=Verdict.ERRORED, find=container_config),
    Rule(reason=Reason.PODS_REFUSED, verdict=Verdict.ERRORED, find=pods_refused),
    Rule(reason=Reason.TOO_FEW_GPUS, verdict=Verdict.ERRORED, find=too_few_gpus),
    Rule(reason=Reason.QUEUE_TIMEOUT, verdict=Verdict.INFRA_FAILED, find=queue_timeout),
)
