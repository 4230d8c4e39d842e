"""Stub pods: from their binding to their end, in two patches each."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from devcluster.node.status import now
from devcluster.stubnode.behaviour import Behaviour, Last, StubEnd, agent_end, agent_stopped

TRUE, FALSE = "True", "False"


def running_status(manifest: Json, address: str) -> Json:
    started = now()
    common = {"hostIP": address, "hostIPs": [{"ip": address}], "startTime": started, "phase": "Running"}
    return common | {
        "conditions": _conditions(manifest, ready=True, reason=""),
        "initContainerStatuses": _init(manifest, started),
        "containerStatuses": _containers(manifest, {"running": {"startedAt": started}}, ready=True),
    }


def ended_status(manifest: Json, last: Last, started: str) -> Json:
    end = {
        "exitCode": last.code,
        "reason": "Error" if last.code else "Completed",
        "message": last.message,
        "startedAt": started,
        "finishedAt": now(),
        "containerID": f"stub://{manifest['metadata']['uid']}",
    }
    return {
        "phase": "Failed" if last.code else "Succeeded",
        "conditions": _conditions(manifest, ready=False, reason="PodFailed" if last.code else "PodCompleted"),
        "containerStatuses": _containers(manifest, {"terminated": end}, ready=False),
    }


def _conditions(manifest: Json, *, ready: bool, reason: str) -> list[Json]:
    """Keep the scheduler's conditions: a merge patch replaces the whole list."""
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


def _containers(manifest: Json, state: Json, *, ready: bool) -> list[Json]:
    return [_status(container, state, manifest, ready=ready) for container in manifest["spec"]["containers"]]


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


LOGS = 20_000  # a log may be asked for long after its pod has ended; the oldest go first
AT_ONCE = 32  # requests
# Pods that have ended are deleted by the API server alone.
BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


@dataclass(slots=True)
class _Life:
    task: asyncio.Task[None]
    is_deleting: bool = False


class Pods:
    """The pods of all stub nodes. `voice` returns the event that is set while a node may send; None for other nodes."""

    def __init__(self, api: KubeApi, address: str, voice: Callable[[str], asyncio.Event | None]) -> None:
        self._api = api
        self._address = address
        self._voice = voice
        self._lives: dict[str, _Life] = {}
        self._logs: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def log(self, namespace: str, pod: str) -> str | None:
        return self._logs.get((namespace, pod))

    async def follow(self) -> None:
        await self._api.follow("/api/v1/pods", self._seen, self._gone, fieldSelector=BOUND)

    def _seen(self, manifest: Json) -> None:
        meta = manifest["metadata"]
        voice = self._voice(manifest["spec"]["nodeName"])
        if voice is None:
            return
        life = self._lives.get(meta["uid"])
        if life is None:
            life = self._lives[meta["uid"]] = _Life(asyncio.create_task(self._live(manifest, voice)))
        if "deletionTimestamp" in meta and not life.is_deleting:
            life.task.cancel()
            life.is_deleting = True
            life.task = asyncio.create_task(self._stop(manifest, voice))

    def _gone(self, manifest: Json) -> None:
        """Forget a pod that is no longer in the API, or has ended."""
        self._lives.pop(manifest["metadata"]["uid"], None)

    async def _live(self, manifest: Json, voice: asyncio.Event) -> None:
        behaviour = _behaviour(manifest)
        started_seconds, started = time.time(), now()
        where = (manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        self._keep(where, "")
        status = manifest.get("status") or {}
        if status.get("phase") != "Running":
            await self._patch(manifest, running_status(manifest, self._address), voice)
        if behaviour.end is StubEnd.LOSE:
            voice.clear()
        if behaviour.end in {StubEnd.LOSE, StubEnd.HANG}:
            return
        await asyncio.sleep(behaviour.seconds)
        last = agent_end(manifest, behaviour, started_seconds)
        self._keep(where, last.log)
        await self._patch(manifest, ended_status(manifest, last, started), voice)

    async def _stop(self, manifest: Json, voice: asyncio.Event) -> None:
        meta = manifest["metadata"]
        behaviour = _behaviour(manifest)
        await asyncio.sleep(min(behaviour.stop_seconds, float(meta.get("deletionGracePeriodSeconds") or 0)))
        started = (manifest.get("status") or {}).get("startTime") or now()
        await self._patch(manifest, ended_status(manifest, agent_stopped(manifest), started), voice)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        await self._api.insist("DELETE", _path(manifest), options, turn=lambda: self._turn(voice))

    def _keep(self, where: tuple[str, str], log: str) -> None:
        self._logs[where] = log
        if len(self._logs) > LOGS:
            self._logs.popitem(last=False)

    async def _patch(self, manifest: Json, status: Json, voice: asyncio.Event) -> None:
        body = {"metadata": {"uid": manifest["metadata"]["uid"]}, "status": status}
        path = f"{_path(manifest)}/status"
        await self._api.insist("PATCH", path, body, content_type=MERGE, turn=lambda: self._turn(voice))

    @contextlib.asynccontextmanager
    async def _turn(self, voice: asyncio.Event) -> AsyncIterator[None]:
        """Wait while the node is silent, and while too many requests are under way."""
        await voice.wait()
        async with self._turns:
            yield


def _behaviour(manifest: Json) -> Behaviour:
    try:
        return Behaviour.read(manifest["metadata"].get("annotations") or {})
    except ValueError as error:
        print(f"pod {manifest['metadata']['name']}: {error}; it crashes", flush=True)
        return Behaviour(end=StubEnd.CRASH)


def _path(manifest: Json) -> str:
    meta = manifest["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
