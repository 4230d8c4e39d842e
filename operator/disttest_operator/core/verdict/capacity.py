"""Capacity: whether the nodes can ever run a gang, and a sentence about why a gang is waiting."""

from collections.abc import Iterable

from disttest_operator.core.api.model import DistTest, Placement
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.observed.objects import NodeView, PodView


def suffices_without(test: DistTest, nodes: tuple[NodeView, ...], avoided: frozenset[str]) -> bool:
    """Whether the gang fits on the schedulable nodes that are not avoided, even if others use them now."""
    left = tuple(node for node in nodes if node.name not in avoided and node.is_schedulable)
    spec = test.spec
    wanted = spec.template.node_selector.items()
    fitting = [node for node in left if wanted <= node.labels.items()]
    has_nodes = len(fitting) >= (spec.nodes if spec.placement is Placement.SPREAD else 1)
    return has_nodes and not shortage(test, left)


def shortage(test: DistTest, nodes: tuple[NodeView, ...]) -> str:
    """A sentence if there are too few GPUs even when none is in use, else an empty text. Taints are ignored.

    Also empty without nodes, since the operator may have no right to list them.
    """
    spec = test.spec
    if not spec.gpus_per_node or not nodes:
        return ""
    wanted = spec.template.node_selector.items()
    sizes = {node.name: _gpus(node, spec.gpu_resource) for node in nodes if wanted <= node.labels.items()}
    fitting = [size for size in sizes.values() if size >= spec.gpus_per_node]
    slots = len(fitting) if spec.placement is Placement.SPREAD else sum(size // spec.gpus_per_node for size in fitting)
    if slots >= spec.nodes:
        return ""
    selected = " that match spec.template.spec.nodeSelector" if spec.template.node_selector else ""
    return (
        f"The run needs {spec.nodes} x {spec.gpus_per_node} {spec.gpu_resource}, but {len(fitting)} of {len(sizes)} "
        f"nodes{selected} have {spec.gpus_per_node} or more (maximum on one node: {max(sizes.values(), default=0)}). "
        "Decrease spec.nodes or spec.gpusPerNode, or add nodes."
    )


def _gpus(node: NodeView, resource: str) -> int:
    amount = node.allocatable.get(resource, "0")
    return int(amount) if amount.isdecimal() else 0


SHOWN = 16  # node indexes in a sentence


def why_waiting(evidence: Evidence) -> str:
    """Why the gang is not running, with the message of the component that it waits for."""
    too_few = shortage(evidence.test, evidence.seen.nodes or ())
    return _why_there_are_no_pods(evidence) or too_few or _why_pods_wait(evidence)


def _why_there_are_no_pods(evidence: Evidence) -> str:
    test, seen = evidence.test, evidence.seen
    if test.spec.suspend:
        return "spec.suspend is true"
    if seen.older_run:
        return f"run {seen.older_run!r} of the series has not finished, and spec.concurrencyPolicy is Wait"
    if seen.job is None:
        return attempts.words(test.records[-1]) if test.records else "the Job has not been created"
    if seen.job.is_suspended:
        queue = test.spec.queue_name
        return f"the Job is suspended, waiting in queue {queue!r}" if queue else "the Job is suspended"
    return ""


def _why_pods_wait(evidence: Evidence) -> str:
    for pod in not_started(evidence.pods):
        scheduled = pod.conditions.get("PodScheduled")
        if not pod.is_scheduled:
            words = scheduled.message if scheduled and not scheduled.is_true else "no node has been found"
            return f"{pod.where}: {words}"
        if pod.waiting_reason:
            return f"{pod.where}: {wait_in_words(pod)}{_last_event(evidence)}"
    missing = evidence.test.spec.nodes - len(evidence.pods)
    return f"{missing} pods have not been created{_last_event(evidence)}" if missing else "pods are starting"


def unbound(evidence: Evidence) -> str:
    """Which pods have no node, and why; pods with the same reason share a sentence."""
    reasons: dict[str, list[int]] = {}
    for pod in evidence.pods:
        if pod.is_unschedulable:
            reasons.setdefault(pod.conditions["PodScheduled"].message, []).append(pod.index)
    return "; ".join(
        f"{len(indexes)} of {evidence.test.spec.nodes} pods have no node "
        f"(index {', '.join(map(str, indexes[:SHOWN]))}{' …' if len(indexes) > SHOWN else ''}): {words.rstrip('. ')}"
        for words, indexes in reasons.items()
    )


def _last_event(evidence: Evidence) -> str:
    events = evidence.seen.events or ()
    return f" ({events[-1].reason} of {events[-1].about}: {events[-1].message})" if events else ""


def not_started(pods: Iterable[PodView]) -> list[PodView]:
    return [pod for pod in pods if not pod.has_started and not pod.has_ended]


def wait_in_words(pod: PodView) -> str:
    return f"{pod.waiting_reason}: {pod.waiting_message}" if pod.waiting_message else pod.waiting_reason
