"""What the API sees of a pod, from the states of its containers: as the kubelet computes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from devcluster.controlplane.kubeapi import Json

NOT_READY_REASON = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_precisely() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state of one container."""

    state: Json
    restarts: int
    ready: bool

    @property
    def exit_code(self) -> int | None:
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])


def phase(main: Sequence[View], init: Sequence[View], *, restart_policy: str, stopping: bool, failed: bool) -> str:
    if failed:
        return "Failed"
    codes = [view.exit_code for view in main]
    restarts_no_more = restart_policy == "Never" or (restart_policy == "OnFailure" and not any(codes))
    final = stopping or restarts_no_more
    if final and all(code is not None for code in codes):
        return "Failed" if any(codes) else "Succeeded"
    if any(view.exit_code for view in init) and (stopping or restart_policy == "Never"):
        return "Failed"
    has_started = any("waiting" not in view.state or view.restarts for view in main)
    return "Running" if has_started else "Pending"


class Conditions:
    """The conditions of a pod, each with the time of its last change."""

    def __init__(self) -> None:
        self._known: dict[str, Json] = {}

    def set(self, kind: str, reason: str = "", *, true: bool) -> None:
        """Set a condition; its time changes only with its status."""
        status = "True" if true else "False"
        known = self._known.get(kind)
        if known is None or known["status"] != status:
            known = self._known[kind] = {"type": kind, "status": status, "lastTransitionTime": now()}
        known["reason"] = reason or None

    def as_list(self) -> list[Json]:
        return [dict(condition) for condition in self._known.values()]


def set_all(
    conditions: Conditions, pod_phase: str, main: Sequence[View], init: Sequence[View], *, sandbox: bool
) -> None:
    ready = pod_phase == "Running" and all(view.ready for view in main)
    reason = "" if ready else NOT_READY_REASON.get(pod_phase, "ContainersNotReady")
    initialized = all(view.exit_code == 0 for view in init)
    done = NOT_READY_REASON["Succeeded"] if pod_phase == "Succeeded" else ""
    conditions.set("PodReadyToStartContainers", true=sandbox)
    conditions.set("Initialized", done if initialized else "ContainersNotInitialized", true=initialized)
    conditions.set("ContainersReady", reason, true=ready)
    conditions.set("Ready", reason, true=ready)
