"""python -m bench.operator.minimal KUBECONFIG [NAMESPACE]: an operator that does the least, for comparison.

Four list and watch streams, dicts, one task a run, the operator's writes; no checks, no retries, no deadlines, no
metrics, no second operator. It is correct only while nothing fails: any error of the API ends it.
"""

import asyncio
import hashlib
import json
import secrets
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from bench.operator import templates
from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from disttest_contract.transport import frames
from disttest_operator.core.series import ledger

OURS = "app.kubernetes.io/managed-by=disttest-operator,disttest.dev/name"
ROOTS = {
    "disttests": "/apis/disttest.dev/v1alpha1",
    "disttestseries": "/apis/disttest.dev/v1alpha1",
    "jobs": "/apis/batch/v1",
    "pods": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "events": "/apis/events.k8s.io/v1",
}
WATCHED = {"disttests": "", "disttestseries": "", "jobs": OURS, "pods": OURS}
AT_ONCE = 16
SETTLE_SECONDS = 2.0


@dataclass(slots=True)
class MinimalRun:
    body: Json
    pods: dict[str, Json] = field(default_factory=dict)  # by index
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    started: float = field(default_factory=time.time)


@dataclass(slots=True)
class Ledger:
    body: Json | None = None
    waiting: list[tuple[ledger.Entry, asyncio.Event]] = field(default_factory=list)
    settled: set[str] = field(default_factory=set)  # uids of runs whose own status has the verdict
    worker: asyncio.Task[None] | None = None


class Client:
    def __init__(self, api: KubeApi, namespace: str) -> None:
        self._api = api
        self._scope = f"/namespaces/{namespace}" if namespace else ""
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._runs: dict[str, MinimalRun] = {}  # by uid
        self._known: dict[str, Json] = {}  # Jobs and ledgers by uid
        self._ledgers: dict[tuple[str, str], Ledger] = defaultdict(Ledger)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listed: set[str] = set()

    # Watches

    async def follow(self, resource: str, selector: str) -> None:
        selectors = {"labelSelector": selector} if selector else {}
        async for kind, value in self._api.events(f"{ROOTS[resource]}{self._scope}/{resource}", **selectors):
            for item in value if kind == "LIST" else [value]:
                self._take(resource, item)
            if kind == "LIST":
                self._listed.add(resource)
                if len(self._listed) == len(WATCHED):
                    print("ready", flush=True)

    def _take(self, resource: str, item: Json) -> None:
        meta = item["metadata"]
        if resource == "disttests":
            run = self._runs.get(meta["uid"])
            if run is None:
                if item.get("status"):  # finished, or started by another
                    return
                run = self._runs[meta["uid"]] = MinimalRun(item)
                task = asyncio.create_task(self._live(run))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            run.body = item
        elif resource == "pods":
            run = self._runs.get(meta["labels"]["disttest.dev/uid"])
            if run:
                run.pods[meta["labels"]["batch.kubernetes.io/job-completion-index"]] = item
                run.changed.set()
        else:
            self._known[meta["uid"]] = item

    # A run

    async def _live(self, run: MinimalRun) -> None:
        namespace, name = (run.body["metadata"][key] for key in ("namespace", "name"))
        nonce = secrets.token_hex(16)
        await self._create("services", namespace, templates.service(run.body))
        await self._create("jobs", namespace, templates.job(run.body, nonce))
        await self._write_status(run, templates.unfinished(run.body))
        await self._create("events", namespace, templates.event(run.body, "Created", "created the gang of attempt 1"))
        while not _has_ended(run):
            run.changed.clear()
            await run.changed.wait()
        log = await self._log(namespace, run.pods["0"]["metadata"]["name"])
        raw = frames.decode(log, nonce)
        sha256 = hashlib.sha256(raw).hexdigest()
        await self._create("configmaps", namespace, templates.config_map(run.body, raw, sha256))
        status = templates.finished(run.body, json.loads(raw), sha256, run.started)
        book = self._ledgers[namespace, run.body["spec"]["series"]]
        uid = run.body["metadata"]["uid"]
        await self._fold(book, run, ledger.make_entry(uid=uid, name=name, status=status))
        await self._write_status(run, status)
        book.settled.add(uid)
        self._wake(book, run, SETTLE_SECONDS)
        await self._create("events", namespace, templates.event(run.body, "GangReady", "2 of 2 pods run"))
        await self._create("events", namespace, templates.event(run.body, status["verdict"], status["message"]))

    async def _write_status(self, run: MinimalRun, status: Json) -> None:
        meta = run.body["metadata"]
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        path = f"{ROOTS['disttests']}/namespaces/{meta['namespace']}/disttests/{meta['name']}/status"
        run.body = await self._request("PATCH", path, {"metadata": guard, "status": status})

    # A ledger: one writer, which folds all waiting entries at once

    async def _fold(self, book: Ledger, run: MinimalRun, entry: ledger.Entry) -> None:
        done = asyncio.Event()
        book.waiting.append((entry, done))
        self._wake(book, run, 0)
        await done.wait()

    def _wake(self, book: Ledger, run: MinimalRun, seconds: float) -> None:
        if book.worker is None:
            meta, series = run.body["metadata"], run.body["spec"]["series"]
            book.worker = asyncio.create_task(self._write_ledgers(book, meta["namespace"], series, seconds))

    async def _write_ledgers(self, book: Ledger, namespace: str, series: str, seconds: float) -> None:
        await asyncio.sleep(seconds and 0.05)
        idle_since = time.monotonic()
        while book.waiting or (book.settled and time.monotonic() - idle_since < seconds):
            if not book.waiting:
                await asyncio.sleep(0.05)
                continue
            await self._write_ledger(book, namespace, series)
            idle_since = time.monotonic()
        if book.settled:
            await self._write_ledger(book, namespace, series)
        book.worker = None
        if book.settled or book.waiting:
            book.worker = asyncio.create_task(self._write_ledgers(book, namespace, series, SETTLE_SECONDS))

    async def _write_ledger(self, book: Ledger, namespace: str, series: str) -> None:
        if book.body is None:
            kind = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTestSeries"}
            meta = {"name": series, "namespace": namespace, "labels": {"disttest.dev/series": series}}
            book.body = await self._create("disttestseries", namespace, {**kind, "metadata": meta})
        settled = set(book.settled)
        status = ledger.settle(book.body.get("status") or {}, settled)
        room = ledger.PENDING - len(status["pending"])
        now, book.waiting = book.waiting[:room], book.waiting[room:]
        for entry, _ in now:
            status = ledger.fold(status, entry, nodes=2)
        guard = {key: book.body["metadata"][key] for key in ("uid", "resourceVersion")}
        path = f"{ROOTS['disttestseries']}/namespaces/{namespace}/disttestseries/{series}/status"
        book.body = await self._request("PATCH", path, {"metadata": guard, "status": status})
        book.settled -= settled
        for _, done in now:
            done.set()

    # Requests

    async def _create(self, resource: str, namespace: str, body: Json) -> Json:
        return await self._request("POST", f"{ROOTS[resource]}/namespaces/{namespace}/{resource}", body)

    async def _log(self, namespace: str, pod: str) -> str:
        async with self._turns:
            return await self._api.get_text(f"/api/v1/namespaces/{namespace}/pods/{pod}/log")

    async def _request(self, method: str, path: str, body: Json) -> Json:
        async with self._turns:
            content_type = MERGE if method == "PATCH" else "application/json"
            return await self._api.request(method, path, body, content_type=content_type)


def _has_ended(run: MinimalRun) -> bool:
    ends = [
        status["state"].get("terminated")
        for pod in run.pods.values()
        for status in pod["status"].get("containerStatuses") or ()
    ]
    return len(ends) == run.body["spec"]["nodes"] and all(ends)


async def main(kubeconfig: Path, namespace: str) -> None:
    async with KubeApi(kubeconfig) as api:
        client = Client(api, namespace)
        await asyncio.gather(*(client.follow(resource, selector) for resource, selector in WATCHED.items()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), namespace="".join(sys.argv[2:3])))
