"""Five thousand finished DistTests: how soon an operator is ready, what it holds, costs and how fast it answers."""

import asyncio
import json
import re
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import Figure
from bench.operator import load, place, subject, templates
from bench.operator.place import Place
from devcluster.kubeapi import MERGE, Json, KubeApi
from tests.support.operator import OperatorProcess

RUNS = 5000
STATUS_BYTES = 4096
IDLE_SECONDS = 330  # one resync and one new beginning of each watch are in it
RATE = 10  # runs a second
RATED_RUNS = 300
ROUNDS = 3  # one stall of the machine's disk is most of what a single one has beyond its 98th percentile
JOBS_PER_REQUEST = 16
SERIES = 50


def status(number: int) -> Json:
    """Terminal, with as many failures as make it so large."""
    condition = {"status": "True", "lastTransitionTime": "2026-11-01T02:00:00Z", "observedGeneration": 1}
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
            {"type": kind, "reason": "CasesFailed", "message": "cases failed", **condition}
            for kind in ("GangReady", "ResultsCollected", "Failed", "Finished")
        ],
        "failures": [],
    }
    failure = {"suite": "collectives", "outcome": "failed", "ranks": [1], "nodes": ["node1"], "seconds": 1.5}
    while (room := STATUS_BYTES - len(json.dumps(found, separators=(",", ":")))) > 300:
        case = f"test_{len(found['failures'])}"
        found["failures"].append({"case": case, **failure, "message": "x" * min(400, room - 150)})
    return found


async def _fill(api: KubeApi, count: int, *, jobs: bool) -> None:
    """While no operator runs, each object by one create and one status, as their operators left them."""
    turns = asyncio.Semaphore(JOBS_PER_REQUEST)

    async def one(number: int) -> None:
        async with turns:
            made = await load.insist(api, "POST", load.TESTS, load.run(f"old-{number}", f"old-{number % SERIES}"))
            path = f"{load.TESTS}/old-{number}/status"
            await load.insist(api, "PATCH", path, {"status": status(number)}, content_type=MERGE)
            if jobs:
                await load.insist(api, "POST", load.JOBS, _ended_job(made))

    await asyncio.gather(*(one(number) for number in range(count)))


def _ended_job(run: Json) -> Json:
    """With the size of a real one; without completions the controller ends it at once, and it has no pods."""
    job = templates.job(run, "0" * 32)
    job["spec"] |= {"completions": 0, "parallelism": 0, "completionMode": "NonIndexed"}
    for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
        del job["spec"][key]
    return job


def restart_seconds(where: Place, log: Path) -> tuple[float, float, OperatorProcess]:
    """Of an operator that was told to end and started anew: until it is ready, until it acts."""
    first = OperatorProcess(where.kubeconfig, log, subject.FLAGS)
    subject.wait_until_active(first)
    first.process.send_signal(signal.SIGTERM)
    first.process.wait()
    begun = time.monotonic()
    process = OperatorProcess(where.kubeconfig, log, subject.FLAGS)
    subject.wait_for("the operator is ready", lambda: process.get("/readyz")[0] == 200, subject.READY_SECONDS)
    ready = time.monotonic() - begun
    subject.wait_until_active(process)
    return ready, time.monotonic() - begun, process


def peak_mb(pid: int) -> float:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def idle_percent(process: OperatorProcess, seconds: float) -> float:
    def has_no_work() -> bool:
        return process.metrics().get("disttest_queue_depth") == 0.0

    subject.wait_for("every run has been looked at once", has_no_work, subject.READY_SECONDS)
    before = subject.cpu_seconds(process.process.pid)
    time.sleep(seconds)
    subject.check_alive(process)  # one that has ended costs nothing
    return 100 * (subject.cpu_seconds(process.process.pid) - before) / seconds


async def _latencies(kubeconfig: Path, prefix: str) -> list[float]:
    """Seconds from sending each DistTest to the news that its Job is there, at an even rate."""
    sent: dict[str, float] = {}
    came: dict[str, float] = {}
    listed = asyncio.Event()

    async def watch(api: KubeApi) -> None:
        async for kind, value in api.events(load.JOBS):
            now = time.monotonic()
            if kind == "LIST":
                listed.set()
            elif kind == "ADDED":
                came.setdefault(value["metadata"]["labels"]["disttest.dev/name"], now)

    async def give(api: KubeApi, number: int) -> None:
        name = f"{prefix}-{number}"
        # Their Jobs wait to be admitted: ten gangs a second are more than a control plane on two cores can start, and
        # its delays would be all that is seen.
        manifest = load.run(name, f"{prefix}-series")
        manifest["spec"]["queueName"] = "nobody-admits"
        sent[name] = time.monotonic()
        await load.insist(api, "POST", load.TESTS, manifest)

    async with load.kube_api(kubeconfig) as api:
        watching = asyncio.create_task(watch(api))
        await listed.wait()
        begun, tasks = time.monotonic(), []
        for number in range(RATED_RUNS):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            tasks.append(asyncio.create_task(give(api, number)))
        await asyncio.gather(*tasks)
        deadline = time.monotonic() + 60
        while sent.keys() - came.keys() and time.monotonic() < deadline:  # noqa: ASYNC110 - another process answers
            await asyncio.sleep(0.1)
        watching.cancel()
    if missing := sent.keys() - came.keys():
        raise SystemExit(f"bench: {len(missing)} runs got no Job, such as {min(missing)}")
    return [came[name] - sent[name] for name in sent]


def _percentiles(kubeconfig: Path, who: str) -> tuple[float, float]:
    """p50 and p99 in milliseconds, each the median of all rounds."""
    halves, mosts = [], []
    for number in range(ROUNDS):
        latencies = asyncio.run(_latencies(kubeconfig, f"{who}-{number}"))
        found = statistics.quantiles([1000 * seconds for seconds in latencies], n=100, method="inclusive")
        halves.append(found[49])
        mosts.append(found[98])
        print(f"  apply to Job by {who}: p50 {found[49]:.1f} ms, p99 {found[98]:.1f} ms", flush=True)
    return statistics.median(halves), statistics.median(mosts)


def measure(count: int = RUNS, idle_seconds: float = IDLE_SECONDS) -> list[Figure]:
    figures: list[Figure] = []

    def note(name: str, value: float, unit: str, goal: float) -> None:
        figure = Figure(
            name=f"operator_{count}_finished_{name}", value=round(value, 2), unit=unit, compare="<=", goal=goal
        )
        print(f"  {figure.line}", flush=True)
        figures.append(figure)

    for jobs in (False, True):
        with place.fresh(writes_down=False) as where:
            _one(where, count, idle_seconds, note, jobs=jobs)
    return figures


def _one(
    where: Place, count: int, idle_seconds: float, note: Callable[[str, float, str, float], None], *, jobs: bool
) -> None:
    """With the Jobs of all runs still there, or with the runs alone."""

    async def fill() -> None:
        async with load.kube_api(where.cluster.kubeconfig) as api:
            await _fill(api, count, jobs=jobs)
            if jobs:
                await _until_jobs_ended(api)

    asyncio.run(fill())
    more = "_with_jobs" if jobs else ""
    ready, active, process = restart_seconds(where, where.directory / "operator.log")
    try:
        print(f"  {count} finished runs{more}: ready after {ready:.1f} s, active after {active:.1f} s", flush=True)
        note(f"restart_to_ready{more}", ready, "s", 15)
        note(f"idle_cpu{more}", idle_percent(process, idle_seconds), "%", 0.5)
        half, most = _percentiles(where.cluster.kubeconfig, "operator")
        note(f"apply_to_job_p50{more}", half, "ms", 15)
        note(f"apply_to_job_p99{more}", most, "ms", 100)
        note(f"rss{more}", subject.rss_mb(process.process.pid), "MB", 250)
        note(f"peak_rss{more}", peak_mb(process.process.pid), "MB", 250)
    finally:
        process.kill()
    if not jobs:
        with subject.minimal(where.kubeconfig, where.directory / "minimal.log"):
            least, _ = _percentiles(where.cluster.kubeconfig, "minimal-client")
        note("apply_to_job_p50_by_minimal_client", half / least, "times", 1.25)


async def _until_jobs_ended(api: KubeApi) -> None:
    """Polling: a watch of as many objects would cost more than it saves."""
    ended = False
    while not ended:
        await asyncio.sleep(2)
        ended = all((job.get("status") or {}).get("completionTime") for job in await load.items(api, load.JOBS))
