"""Runs of every kind on stub nodes, each deleted at a random moment, and what was seen of them until then."""

import asyncio
import contextlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

from devcluster.controlplane.kubeapi import Json, KubeApi
from disttest_operator.core.api.api_errors import ApiServerError
from tests.support.clusters.stub_nodes import ON_STUB_NODES, stub_template
from tests.support.operators.operator import disttest

AT_ONCE = 12
BY_SERIES = 20  # runs: a ledger lists the last 30
LONGEST_SECONDS = 4.0  # of the life of a run that is not waited for
REACHED_SECONDS = 60.0
A_LITTLE_LATER_SECONDS = 0.3
BETWEEN = "between attempts"
AT_RANDOM = "at random"
GONE_SECONDS = 120.0
GOODBYE_SECONDS = 0.25  # TLS connections end after they are closed, and nothing tells when


class Deletions:
    """`verdicts` are of runs that showed one before they went; `phases` counts in which they were deleted."""

    def __init__(self, kubeconfig: Path, namespace: str, chance: random.Random) -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._chance = chance
        self._path = f"/apis/disttest.dev/v1alpha1/namespaces/{namespace}/disttests"
        self._seen: dict[str, Json] = {}
        self._moments: dict[tuple[str, str], asyncio.Event] = {}
        self._made: set[str] = set()
        self.verdicts: dict[str, str] = {}
        self.nearly_finished: set[str] = set()
        self.phases: Counter[str] = Counter()

    async def play(self, count: int) -> None:
        async with KubeApi(self._kubeconfig) as api:
            watching = asyncio.create_task(self._watch(api))
            turns = asyncio.Semaphore(AT_ONCE)

            async def one(number: int) -> None:
                async with turns:
                    await self._live(api, number)

            await asyncio.gather(*(one(number) for number in range(count)))
            async with asyncio.timeout(GONE_SECONDS):
                await asyncio.gather(*(self._moment("gone", uid).wait() for uid in self._made))
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        await asyncio.sleep(GOODBYE_SECONDS)

    async def _watch(self, api: KubeApi) -> None:
        async for kind, value in api.events(self._path):
            for body in value if kind == "LIST" else [value]:
                self._note(body)
            if kind == "DELETED":
                self._moment("gone", value["metadata"]["uid"]).set()
            if kind == "LIST":
                for uid in self._made - {body["metadata"]["uid"] for body in value}:
                    self._moment("gone", uid).set()

    def _note(self, body: Json) -> None:
        uid, status = body["metadata"]["uid"], body.get("status") or {}
        self._seen[uid] = body
        self._moment(str(status.get("phase", "new")), uid).set()
        if status.get("attempts"):
            self._moment(BETWEEN, uid).set()
        if status.get("verdict"):
            self.verdicts[uid] = status["verdict"]
            for moment in ("Running", "Collecting", BETWEEN):  # it may be over before it can be seen
                self._moment(moment, uid).set()

    async def _live(self, api: KubeApi, number: int) -> None:
        kind = KINDS[number % len(KINDS)]
        made = await api.request("POST", self._path, self._manifest(kind, number))
        uid, name = made["metadata"]["uid"], made["metadata"]["name"]
        self._made.add(uid)
        moment = MOMENTS[kind][number // len(KINDS) % len(MOMENTS[kind])]
        if moment == AT_RANDOM:
            await asyncio.sleep(self._chance.uniform(0, LONGEST_SECONDS))
        else:
            async with asyncio.timeout(REACHED_SECONDS):
                await self._moment(moment, uid).wait()
            await asyncio.sleep(self._chance.uniform(0, A_LITTLE_LATER_SECONDS))
        how = self._chance.choice(("Foreground", "Background"))
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": how}
        with contextlib.suppress(ApiServerError):
            live = await api.request("DELETE", f"{self._path}/{name}", options)
            self._note(live if "spec" in live else self._seen.get(uid, made))
        status = self._seen.get(uid, made).get("status") or {}
        is_between = bool(status.get("attempts")) and not status.get("verdict")
        self.phases[BETWEEN if is_between else str(status.get("phase", "new"))] += 1
        if kind not in {"suspended", "queued", "unschedulable", "hanging"}:
            self.nearly_finished.add(uid)

    def _moment(self, what: str, uid: str) -> asyncio.Event:
        return self._moments.setdefault((what, uid), asyncio.Event())

    def _manifest(self, kind: str, number: int) -> Json:
        series = f"series-{number // BY_SERIES}"
        spec = KINDS_OF_SPECS[kind](self._chance)
        return disttest(self._namespace, f"{kind}-{number}", series=series, **spec)


def _suspended(_: random.Random) -> dict[str, Any]:
    return {"template": stub_template(), "suspend": True}


def _queued(_: random.Random) -> dict[str, Any]:
    return {"template": stub_template(), "queueName": "never-admitted"}


def _unschedulable(_: random.Random) -> dict[str, Any]:
    return {"template": {"spec": ON_STUB_NODES | {"nodeSelector": {"no-such": "label"}}}}


def _starting(_: random.Random) -> dict[str, Any]:
    return {"nodes": 1, "image": "registry.invalid/no-such-image:1"}


def _hanging(chance: random.Random) -> dict[str, Any]:
    return {"template": stub_template(end="hang", stop_seconds=round(chance.uniform(0, 1), 1))}


def _passing(chance: random.Random) -> dict[str, Any]:
    return {"template": stub_template(seconds=round(chance.uniform(0, 2), 1))}


def _failing(chance: random.Random) -> dict[str, Any]:
    return {"template": stub_template(end="fail", seconds=round(chance.uniform(0, 2), 1))}


def _crashing(_: random.Random) -> dict[str, Any]:
    return {"template": stub_template(end="crash"), "retries": {"infrastructure": 3}}


KINDS_OF_SPECS = {
    "suspended": _suspended,
    "queued": _queued,
    "unschedulable": _unschedulable,
    "starting": _starting,
    "hanging": _hanging,
    "passing": _passing,
    "failing": _failing,
    "crashing": _crashing,
    "finished": _passing,
}
KINDS = (*KINDS_OF_SPECS, "passing", "crashing", "passing")
# When a run of a kind is deleted: in turn after one of these phases was seen.
MOMENTS = {
    "suspended": ("new", AT_RANDOM),
    "queued": ("Queued", AT_RANDOM),
    "unschedulable": ("Queued", AT_RANDOM),
    "starting": ("Starting", AT_RANDOM),
    "hanging": ("Running", AT_RANDOM),
    "passing": ("Running", "Collecting", AT_RANDOM),
    "failing": ("Collecting", AT_RANDOM),
    "crashing": (BETWEEN, AT_RANDOM),
    "finished": ("Finished",),
}
