"""The status that a stub pod has, as a kubelet would write it."""

from devcluster.kubeapi import Json
from devcluster.node.status import now
from devcluster.stubnode.agent import Last

TRUE, FALSE = "True", "False"


def running(manifest: Json, address: str) -> Json:
    started = now()
    states = {container["name"]: {"running": {"startedAt": started}} for container in manifest["spec"]["containers"]}
    common = {"hostIP": address, "hostIPs": [{"ip": address}], "startTime": started, "phase": "Running"}
    return common | {
        "conditions": _conditions(manifest, ready=True, reason=""),
        "initContainerStatuses": _init(manifest, started),
        "containerStatuses": _containers(manifest, states, ready=True),
    }


def ended(manifest: Json, last: Last, started: str) -> Json:
    phase = "Failed" if last.code else "Succeeded"
    end = {
        "exitCode": last.code,
        "reason": "Error" if last.code else "Completed",
        "message": last.message,
        "startedAt": started,
        "finishedAt": now(),
        "containerID": f"stub://{manifest['metadata']['uid']}",
    }
    states = {container["name"]: {"terminated": end} for container in manifest["spec"]["containers"]}
    return {
        "phase": phase,
        "conditions": _conditions(manifest, ready=False, reason="PodFailed" if last.code else "PodCompleted"),
        "containerStatuses": _containers(manifest, states, ready=False),
    }


def _conditions(manifest: Json, *, ready: bool, reason: str) -> list[Json]:
    """The scheduler's is kept: a merge patch replaces the whole list."""
    known = (manifest.get("status") or {}).get("conditions") or []
    kept = [condition for condition in known if condition["type"] in {"PodScheduled", "DisruptionTarget"}]
    time, status = now(), TRUE if ready else FALSE
    ours = {"PodReadyToStartContainers": TRUE, "Initialized": TRUE, "ContainersReady": status, "Ready": status}
    return kept + [
        {"type": kind, "status": value, "lastTransitionTime": time, **({"reason": reason} if value == FALSE else {})}
        for kind, value in ours.items()
    ]


def _init(manifest: Json, time: str) -> list[Json]:
    end = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}}
    return [_status(container, end, manifest, ready=True) for container in manifest["spec"].get("initContainers") or []]


def _containers(manifest: Json, states: dict[str, Json], *, ready: bool) -> list[Json]:
    return [
        _status(container, states[container["name"]], manifest, ready=ready)
        for container in manifest["spec"]["containers"]
    ]


def _status(container: Json, state: Json, manifest: Json, *, ready: bool) -> Json:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"stub://{container['image']}",
        "containerID": f"stub://{manifest['metadata']['uid']}",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }
