"""How soon after its DistTest a Job is there: the operator and the minimal client at the same time, by turns."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure
from bench.operator import load, place, subject
from bench.operator.place import NAMESPACE, BenchCluster
from devcluster.controlplane.kubeapi import Json, KubeApi

RATE = 10  # runs a second, of all namespaces together
RUNS = 200  # of each namespace and round
ROUNDS = 3  # one stall of the machine's disk is most of what a single one has beyond its 98th percentile
GOAL_TIMES = 1.1
WAIT_SECONDS = 60


def measure() -> list[Figure]:
    with place.fresh(writes_down=False) as where:
        ratio = by_minimal_client(where)
    return [
        Figure(
            name="apply_to_job_p50_by_minimal_client",
            value=round(ratio, 3),
            unit="times",
            compare="<=",
            goal=GOAL_TIMES,
        )
    ]


def by_minimal_client(where: BenchCluster) -> float:
    """The median of all rounds. Each has a namespace, so that whatever the machine does meets both."""
    cluster, ratios = where.cluster, []
    with (
        cluster.namespace() as other,
        subject.operator(where.kubeconfig, where.directory / "operator.log", f"--namespaces={NAMESPACE}"),
        subject.minimal(where.kubeconfig, where.directory / "minimal.log", other),
    ):
        for number in range(ROUNDS):
            found = latencies(cluster.kubeconfig, f"round-{number}", (NAMESPACE, other), runs=RUNS)
            ours, least = (1000 * statistics.median(found[namespace]) for namespace in (NAMESPACE, other))
            ratios.append(ours / least)
            print(
                f"  round {number + 1} of {ROUNDS}: apply to Job: operator {ours:.1f} ms, "
                f"minimal client {least:.1f} ms, {ratios[-1]:.3f} times",
                flush=True,
            )
    return statistics.median(ratios)


def latencies(kubeconfig: Path, prefix: str, namespaces: Sequence[str], *, runs: int) -> dict[str, list[float]]:
    """Seconds from sending each DistTest until its Job is reported, at an even rate."""
    return asyncio.run(_latencies(kubeconfig, prefix, namespaces, runs))


async def _latencies(kubeconfig: Path, prefix: str, namespaces: Sequence[str], runs: int) -> dict[str, list[float]]:
    sent: dict[tuple[str, str], float] = {}
    came: dict[tuple[str, str], float] = {}
    async with load.kube_api(kubeconfig) as api:
        listed = [asyncio.Event() for _ in namespaces]
        async with asyncio.TaskGroup() as group:
            pairs = zip(namespaces, listed, strict=True)
            watches = [group.create_task(_watch(api, namespace, came, event)) for namespace, event in pairs]
            for event in listed:
                await event.wait()
            names = [(namespace, f"{prefix}-{number}") for number in range(runs) for namespace in namespaces]
            await _send(api, names, sent)
            deadline = time.monotonic() + WAIT_SECONDS
            while sent.keys() - came.keys() and time.monotonic() < deadline:  # noqa: ASYNC110 - another process answers
                await asyncio.sleep(0.1)
            for watch in watches:
                watch.cancel()
    if missing := sent.keys() - came.keys():
        raise SystemExit(f"bench: {len(missing)} runs got no Job, such as {min(missing)}")
    found: dict[str, list[float]] = {namespace: [] for namespace in namespaces}
    for key, begun in sent.items():
        found[key[0]].append(came[key] - begun)
    return found


async def _watch(api: KubeApi, namespace: str, came: dict[tuple[str, str], float], listed: asyncio.Event) -> None:
    async for kind, value in api.events(f"/apis/batch/v1/namespaces/{namespace}/jobs"):
        now = time.monotonic()
        if kind == "LIST":
            listed.set()
        elif kind == "ADDED":
            came.setdefault((namespace, value["metadata"]["labels"]["disttest.dev/name"]), now)


async def _send(api: KubeApi, names: Sequence[tuple[str, str]], sent: dict[tuple[str, str], float]) -> None:
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, (namespace, name) in enumerate(names):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            group.create_task(_send_one(api, namespace, name, sent))


async def _send_one(api: KubeApi, namespace: str, name: str, sent: dict[tuple[str, str], float]) -> None:
    path = f"/apis/disttest.dev/v1alpha1/namespaces/{namespace}/disttests"
    manifest = _waiting_run(namespace, name)
    sent[namespace, name] = time.monotonic()
    await load.insist(api, "POST", path, manifest)


def _waiting_run(namespace: str, name: str) -> Json:
    """No queue admits its Job: two cores cannot start ten gangs a second, and only that delay would be seen."""
    manifest = load.run(name, "waiting")
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["queueName"] = "nobody-admits"
    return manifest
