"""What holds a gang up, in words."""

from collections.abc import Iterable

from disttest_operator.core import attempts, capacity
from disttest_operator.core.evidence import Evidence
from disttest_operator.core.views import PodView

SHOWN = 16  # indexes in a sentence


def why_waiting(evidence: Evidence) -> str:
    """What holds the gang up, in the words of whoever holds it."""
    return _why_there_are_no_pods(evidence) or _shortage(evidence) or _why_pods_wait(evidence)


def _why_there_are_no_pods(evidence: Evidence) -> str:
    test, seen = evidence.test, evidence.seen
    if test.spec.suspend:
        return "spec.suspend is true"
    if seen.older_run:
        return f"run {seen.older_run!r} of the series goes on, and spec.concurrencyPolicy is Wait"
    if seen.job is None:
        return attempts.words(test.records[-1]) if test.records else "the Job does not exist yet"
    if seen.job.is_suspended:
        queue = test.spec.queue_name
        return f"the Job is suspended, waiting in queue {queue!r}" if queue else "the Job is suspended"
    return ""


def _shortage(evidence: Evidence) -> str:
    return capacity.shortage(evidence.test, evidence.seen.nodes or ())


def _why_pods_wait(evidence: Evidence) -> str:
    for pod in not_started(evidence.pods):
        scheduled = pod.conditions.get("PodScheduled")
        if not pod.is_scheduled:
            words = scheduled.message if scheduled and not scheduled.is_true else "no node was found yet"
            return f"{pod.where}: {words}"
        if pod.waiting_reason:
            return f"{pod.where}: {in_words(pod)}{_last_event(evidence)}"
    missing = evidence.test.spec.nodes - len(evidence.pods)
    return f"{missing} pods have not been created{_last_event(evidence)}" if missing else "pods are starting"


def unbound(evidence: Evidence) -> str:
    """Which pods have no node, and why; pods with the same trouble share a sentence."""
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


def in_words(pod: PodView) -> str:
    return f"{pod.waiting_reason}: {pod.waiting_message}" if pod.waiting_message else pod.waiting_reason
