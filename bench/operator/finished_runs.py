"""Five thousand finished DistTests: an operator's start, memory, CPU while idle, and latency."""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figure import Figure, at_most
from bench.operator import apply_to_job, bench_cluster, load, templates
from bench.operator.bench_cluster import NAMESPACE, READY_SECONDS, BenchCluster
from devcluster.controlplane.kubeapi import MERGE, Json, KubeApi
from devcluster.machine import processes
from devcluster.operator_process import OperatorProcess

RUNS = 5000
STATUS_BYTES = 4096
IDLE_SECONDS = 330  # includes one resync and one restart of each watch
RATED_RUNS = 300
JOBS_SECONDS = 900  # for the controller to end a Job of each run
ROUNDS = 3
SERIES = 50


def status(number: int) -> Json:
    """Make a terminal status with enough failures to reach STATUS_BYTES."""
    found: Json = {
        "observedGeneration": 1,
        "phase": "Finished",
        "verdict": "TestsFailed",
        "reason": "CasesFailed",
        "message": "cases failed",
        "series": f"old-{number % SERIES}",
        "gpus": 16,
        "attempt": 1,
        "startTime": "2026-11-01T02:00:00Z",
        "completionTime": "2026-11-01T03:00:00Z",
        "durationSeconds": 3600.0,
        "conditions": [
            templates.condition(kind, "True", "CasesFailed", "cases failed")
            for kind in ("GangReady", "ResultsCollected", "Failed", "Finished")
        ],
        "failures": [],
    }
    failure = {"suite": "collectives", "outcome": "failed", "ranks": [1], "nodes": ["node1"], "seconds": 1.5}
    while (room := STATUS_BYTES - len(json.dumps(found, separators=(",", ":")))) > 300:
        case = f"test_{len(found['failures'])}"
        found["failures"].append({"case": case, **failure, "message": "x" * min(400, room - 150)})
    return found


async def _fill(api: KubeApi, *, jobs: bool) -> None:
    """Create finished runs, with or without their Jobs, while no operator runs."""

    async def one(number: int) -> None:
        made = await load.insist(api, "POST", load.TESTS, load.run(f"old-{number}", f"old-{number % SERIES}"))
        path = f"{load.TESTS}/old-{number}/status"
        await load.insist(api, "PATCH", path, {"status": status(number)}, content_type=MERGE)
        if jobs:
            await load.insist(api, "POST", load.JOBS, _ended_job(made))

    await load.some_at_once(one(number) for number in range(RUNS))


def _ended_job(run: Json) -> Json:
    """Make a Job of the size of a real one that the controller ends at once: it has no completions, so no pods."""
    job = templates.job(run, "0" * 32)
    job["spec"] |= {"completions": 0, "parallelism": 0, "completionMode": "NonIndexed"}
    for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
        del job["spec"][key]
    return job


def restart_seconds(where: BenchCluster, log: Path) -> tuple[float, float, OperatorProcess]:
    """Restart an operator; return the seconds until it is ready and until it is active, and its process."""
    first = OperatorProcess(where.kubeconfig, log, bench_cluster.FLAGS)
    bench_cluster.wait_until_active(first)
    first.stop(READY_SECONDS)
    started = time.monotonic()
    process = OperatorProcess(where.kubeconfig, log, bench_cluster.FLAGS)
    processes.wait_until("the operator is ready", lambda: process.get("/readyz")[0] == 200, READY_SECONDS)
    ready = time.monotonic() - started
    bench_cluster.wait_until_active(process)
    return ready, time.monotonic() - started, process


def idle_percent(process: OperatorProcess) -> float:
    def has_no_work() -> bool:
        return process.metrics().get("disttest_queue_depth") == 0.0

    processes.wait_until("every run has been reconciled once", has_no_work, READY_SECONDS)
    before = processes.cpu_seconds(process.process.pid)
    time.sleep(IDLE_SECONDS)
    process.check_running()  # one that has ended costs nothing
    return 100 * (processes.cpu_seconds(process.process.pid) - before) / IDLE_SECONDS


def _p99_ms(kubeconfig: Path) -> float:
    """Return the 99th percentile from apply to Job, the median of all rounds."""
    found = []
    for number in range(ROUNDS):
        sending = apply_to_job.latencies(kubeconfig, f"operator-{number}", [NAMESPACE], runs=RATED_RUNS)
        seconds = asyncio.run(sending)[NAMESPACE]
        found.append(1000 * statistics.quantiles(seconds, n=100, method="inclusive")[98])
        print(f"  apply to Job: p50 {1000 * statistics.median(seconds):.1f} ms, p99 {found[-1]:.1f} ms", flush=True)
    return statistics.median(found)


def measure() -> Iterator[Figure]:
    for more in ("", "_with_jobs"):
        with bench_cluster.fresh(is_audited=False) as where:
            for name, value, unit, goal in _measured(where, more):
                yield at_most(f"operator_{RUNS}_finished_{name}{more}", value, unit, goal)


def _measured(where: BenchCluster, more: str) -> Iterator[tuple[str, float, str, float]]:
    """Yield name, value, unit and goal of each figure, with the Jobs of all runs or without any Job."""
    jobs = bool(more)

    async def fill() -> None:
        async with KubeApi(where.cluster.kubeconfig) as api:
            await _fill(api, jobs=jobs)
            if jobs:
                await _until_jobs_ended(api)

    asyncio.run(fill())
    ready, active, process = restart_seconds(where, where.directory / "operator.log")
    try:
        print(f"  {RUNS} finished runs{more}: ready after {ready:.1f} s, active after {active:.1f} s", flush=True)
        yield "restart_to_ready", ready, "s", 15
        yield "idle_cpu", idle_percent(process), "%", 0.5
        yield "apply_to_job_p99", _p99_ms(where.cluster.kubeconfig), "ms", 100
        yield "rss", bench_cluster.rss_mb(process.process.pid), "MB", 250
        yield "peak_rss", bench_cluster.rss_mb(process.process.pid, is_peak=True), "MB", 250
    finally:
        process.kill()
    yield "apply_to_job_p50_by_minimal_client", apply_to_job.by_minimal_client(where), "times", apply_to_job.GOAL_TIMES


async def _until_jobs_ended(api: KubeApi) -> None:
    async with asyncio.timeout(JOBS_SECONDS):
        ended = False
        while not ended:
            await asyncio.sleep(2)
            ended = all((job.get("status") or {}).get("completionTime") for job in await load.items(api, load.JOBS))
