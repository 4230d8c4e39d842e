"""Rules for pods whose runner did not start: it could not be copied into them, or their image cannot run it."""

import signal
from collections.abc import Iterator

from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.observed.objects import ContainerExit, PodView
from disttest_operator.core.verdict.rule import Rule, RuleMatch, node_fault

START_FAILED = frozenset({"StartError", "ContainerCannotRun"})
START_CODES = frozenset({126, 127})  # the shell's: not executable, not found
SIGNAL_BASE = 128
SIGKILLED = SIGNAL_BASE + signal.SIGKILL
KILLED = frozenset({SIGKILLED, SIGNAL_BASE + signal.SIGTERM})
INCREASE_MEMORY = "Increase spec.template.spec.resources.limits.memory"
NEEDED = "python3 on its PATH (3.11 or newer), torch and numpy"


def inject_out_of_memory(evidence: Evidence) -> str | None:
    for pod, end in _not_injected(evidence):
        if end.reason == "OOMKilled":
            return f"Out of memory in {pod.where} while the runner was copied into it. {INCREASE_MEMORY}."
    return None


def inject_killed(evidence: Evidence) -> RuleMatch | None:
    for pod, end in _not_injected(evidence):
        if end.code in KILLED:
            how = f"exit code {end.code}, while the runner was copied into it"
            message = f"A signal from outside killed {pod.where} ({how}) for an unknown reason. Check the node."
            return RuleMatch(message=message, pods=(pod,))
    return None


def inject_failed(evidence: Evidence) -> RuleMatch | None:
    """The runner's copy reported a fault of the node, such as a full disk."""
    for pod, end in _not_injected(evidence):
        if end.code == ExitCode.INFRASTRUCTURE:
            message = (
                f"The runner was not copied into {pod.where} ({how_it_ended(end)}). Check the node, then run again."
            )
            return RuleMatch(message=message, pods=(pod,))
    return None


def inject_did_not_start(evidence: Evidence) -> str | None:
    """The image has no runner of the operator's version."""
    image = evidence.test.runner_image
    for pod, end in _not_injected(evidence):
        what = f"The runner cannot be copied from image {image!r} into {pod.where} ({how_it_ended(end)})"
        return f"{what}. Correct --runner-image of the operator: it must have the same version as the operator."
    return None


def container_start(evidence: Evidence) -> str | None:
    """The command could not be executed, or ended before an agent could write a message."""
    if not evidence.is_over:
        return None
    image, is_own = evidence.test.spec.image, evidence.test.has_own_image
    for pod in evidence.ended_pods:
        end = pod.exit
        if end and end.summary and end.summary.reason is Reason.CONTAINER_START_ERROR:
            return f"The runner cannot run in image {image!r} ({pod.where}): {end.summary.message}"
        if end and (end.reason in START_FAILED or end.code in START_CODES or _has_no_agent(end)):
            advice = f"spec.image requires {NEEDED}" if is_own else "Use an image of the runner"
            return f"The runner did not start in image {image!r} of {pod.where} ({how_it_ended(end)}). {advice}."
    return None


def _not_injected(evidence: Evidence) -> Iterator[tuple[PodView, ContainerExit]]:
    """Pods into which the copy failed; deleted and disrupted ones have other rules."""
    for pod in evidence.pods:
        if pod.injected and pod.injected.code and not pod.is_deleting and not pod.disruption:
            yield pod, pod.injected


def _has_no_agent(end: ContainerExit) -> bool:
    """An agent starts by writing a termination message, and ends with one of its exit codes."""
    return end.summary is None and 0 < end.code < SIGNAL_BASE and end.code not in set(ExitCode)


def how_it_ended(end: ContainerExit) -> str:
    """Exit code and last message. A container that never started has no log, only the runtime's error."""
    if not end.last_words:
        return f"exit code {end.code}"
    source = "" if end.summary or end.reason in START_FAILED else "end of its log: "
    return f"exit code {end.code}, {source}{end.last_words}"


NEVER_STARTED = (
    Rule(reason=Reason.OUT_OF_MEMORY, verdict=Verdict.ERRORED, find=inject_out_of_memory),
    node_fault(Reason.POD_KILLED, inject_killed),
    node_fault(Reason.GANG_FAILED_TO_START, inject_failed),
    Rule(reason=Reason.CONTAINER_START_ERROR, verdict=Verdict.ERRORED, find=inject_did_not_start),
    Rule(reason=Reason.CONTAINER_START_ERROR, verdict=Verdict.ERRORED, find=container_start),
)
