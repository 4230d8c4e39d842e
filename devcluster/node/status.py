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


@dataclass(slots=True, kw_only=True, eq=False)
class ContainerState:
    """What the phase and the conditions of a pod follow from."""

    state: Json
    restarts: int = 0
    ready: bool = False

    @property
    def exit_code(self) -> int | None:
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])


States = Sequence[ContainerState]


def phase(main: States, init: States, *, restart_policy: str, stopping: bool, failed: bool) -> str:
    if failed:
        return "Failed"
    codes = [one.exit_code for one in main]
    restarts_no_more = restart_policy == "Never" or (restart_policy == "OnFailure" and not any(codes))
    final = stopping or restarts_no_more
    if final and all(code is not None for code in codes):
        return "Failed" if any(codes) else "Succeeded"
    if any(one.exit_code for one in init) and (stopping or restart_policy == "Never"):
        return "Failed"
    has_started = any("waiting" not in one.state or one.restarts for one in main)
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

    def set_all(self, pod_phase: str, main: States, init: States, *, sandbox: bool) -> None:
        ready = pod_phase == "Running" and all(one.ready for one in main)
        reason = "" if ready else NOT_READY_REASON.get(pod_phase, "ContainersNotReady")
        initialized = all(one.exit_code == 0 for one in init)
        done = NOT_READY_REASON["Succeeded"] if pod_phase == "Succeeded" else ""
        self.set("PodReadyToStartContainers", true=sandbox)
        self.set("Initialized", done if initialized else "ContainersNotInitialized", true=initialized)
        self.set("ContainersReady", reason, true=ready)
        self.set("Ready", reason, true=ready)

    def as_list(self) -> list[Json]:
        return [dict(condition) for condition in self._known.values()]
