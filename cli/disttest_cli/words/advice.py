"""What to do about a run: how it ended, or what it waits for."""

from collections.abc import Mapping
from typing import Any

from disttest_cli.formats.advice import ENDINGS, WHO_HOLDS_GPUS
from disttest_cli.words import lenient
from disttest_contract.outcomes import Reason
from disttest_operator.core.conditions import Type

# Reasons of the condition GangReady as long as it is not true, beside those of an attempt that has ended.
WAITS: Mapping[str, str] = {
    "TooFewGpus": ENDINGS[Reason.TOO_FEW_GPUS],
    "Unschedulable": f"{WHO_HOLDS_GPUS}; nodeSelector, tolerations and taints decide too.",
    "Scheduling": "Wait: nodes are being looked for.",
    "Starting": "Wait: images are being pulled and containers made.",
    "Suspended": "Wait for the queue (kubectl get workloads), or set spec.suspend to false if a person suspended it.",
    "OlderRun": "Wait, or cancel the older run: spec.concurrencyPolicy is Wait.",
    "GangRunning": "",
}
NO_OPERATOR = "If this stays so for a minute: `disttest doctor` says whether an operator is there."
ANOTHER_ATTEMPT = "Another gang is made by itself; what ended the one before is below."
UNKNOWN = "The message says what happened; this command line is older than the operator and knows no more."
SLOW = (
    "Bandwidth below its threshold: look at link speeds, clocks and the slowest rank's node (docs/runbook.md, "
    "DistTestBandwidthBelowReference)."
)
FLAKY = "Flaky cases passed only when they were tried again: always the same node or rank is a weak link, not a test."
SUSPECTS = "Cordon confirmed suspect nodes; let a run of one node go to the others: a pass clears them."


def for_run(status: Mapping[str, Any]) -> list[str]:
    """What to do about this run, the most important first; nothing if there is nothing to do."""
    if not status.get("verdict"):
        waits = _waiting(status)
        return [waits] if waits else []
    said = [_ending(lenient.text(status.get("reason")))]
    if any(row.get("ok") is False for row in lenient.rows(status.get("bandwidth"))):
        said.append(SLOW)
    if lenient.rows(status.get("suspectNodes")):
        said.append(SUSPECTS)
    if lenient.count(lenient.mapping(status.get("cases")).get("flaky")):
        said.append(FLAKY)
    return said


def _ending(reason: str) -> str:
    return ENDINGS[Reason(reason)] if reason in set(Reason) else UNKNOWN


def _waiting(status: Mapping[str, Any]) -> str:
    if not status.get("phase"):
        return NO_OPERATOR
    rows = lenient.rows(status.get("conditions"))
    gang = next((row for row in rows if row.get("type") == Type.GANG_READY.value), None)
    if gang is None or gang.get("status") == "True":
        return ""
    reason = lenient.text(gang.get("reason"))
    if reason in WAITS:
        return WAITS[reason]
    return ANOTHER_ATTEMPT if reason in set(Reason) else UNKNOWN
