"""Latency from a DistTest to its Job, for the operator and the minimal client at the same time."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, at_most
from bench.operator import bench_cluster, load
from bench.operator.bench_cluster import NAMESPACE, BenchCluster
from devcluster.controlplane.kubeapi import KubeApi
from tools.demo.session import say

RATE = 10  # runs a second, of all namespaces together
RUNS = 200  # of each namespace and round
ROUNDS = 3  # a single stall of the disk dominates a round beyond its 98th percentile
GOAL_TIMES = 1.1
WAIT_SECONDS = 60


def measure() -> list[Figure]:
    with bench_cluster.fresh(is_audited=False) as where:
        ratio = by_minimal_client(where)
    return [at_most("apply_to_job_p50_by_minimal_client", ratio, "times", GOAL_TIMES, digits=3)]


def by_minimal_client(where: BenchCluster) -> float:
    """Return the median ratio of all rounds. Both work at the same time, in different namespaces."""
    other, ratios = f"{NAMESPACE}-minimal", []
    where.create_namespace(other)
    with (
        bench_cluster.operator(where.kubeconfig, where.directory / "operator.log", f"--namespaces={NAMESPACE}"),
        bench_cluster.minimal(where.kubeconfig, where.directory / "minimal.log", other),
    ):
        for number in range(ROUNDS):
            sending = latencies(where.cluster.kubeconfig, f"round-{number}", (NAMESPACE, other), runs=RUNS)
            found = asyncio.run(sending)
            ours, least = (1000 * statistics.median(found[namespace]) for namespace in (NAMESPACE, other))
            ratios.append(ours / least)
            say(
                f"  round {number + 1} of {ROUNDS}: apply to Job: operator {ours:.1f} ms, "
                f"minimal client {least:.1f} ms, {ratios[-1]:.3f} times"
            )
    return statistics.median(ratios)


async def latencies(kubeconfig: Path, prefix: str, namespaces: Sequence[str], *, runs: int) -> dict[str, list[float]]:
    """Send DistTests at an even rate; return by namespace the seconds of each until its Job appears."""
    sent: dict[tuple[str, str], float] = {}
    came: dict[tuple[str, str], float] = {}
    async with KubeApi(kubeconfig) as api:
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
    for key, started in sent.items():
        found[key[0]].append(came[key] - started)
    return found


async def _watch(api: KubeApi, namespace: str, came: dict[tuple[str, str], float], listed: asyncio.Event) -> None:
    async for kind, value in api.events(f"/apis/batch/v1/namespaces/{namespace}/jobs"):
        now = time.monotonic()
        if kind == "LIST":
            listed.set()
        elif kind == "ADDED":
            came.setdefault((namespace, value["metadata"]["labels"]["disttest.dev/name"]), now)


async def _send(api: KubeApi, names: Sequence[tuple[str, str]], sent: dict[tuple[str, str], float]) -> None:
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, (namespace, name) in enumerate(names):
            await asyncio.sleep(max(0.0, started + number / RATE - time.monotonic()))
            group.create_task(_send_one(api, namespace, name, sent))


async def _send_one(api: KubeApi, namespace: str, name: str, sent: dict[tuple[str, str], float]) -> None:
    """Send a DistTest whose Job no queue admits: two cores cannot start ten gangs a second."""
    path = f"/apis/disttest.dev/v1alpha1/namespaces/{namespace}/disttests"
    manifest = load.run(name, "waiting")
    manifest["metadata"]["namespace"] = namespace
    manifest["spec"]["queueName"] = "unused-queue"
    sent[namespace, name] = time.monotonic()
    await load.insist(api, "POST", path, manifest)
