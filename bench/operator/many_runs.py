"""A thousand DistTests at once: their verdicts, the operator's CPU and memory, and its writes."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

from bench.figure import Figure, at_most, exactly
from bench.operator import bench_cluster, load
from bench.operator.bench_cluster import BenchCluster, Writes
from bench.operator.load import Expected
from devcluster.controlplane.kubeapi import KubeApi
from devcluster.machine import processes
from tools.demo.session import say

RUNS = 1000
SERIES = 20
LIMIT_SECONDS = 900
KEEPS_NO_REPORTS = "--retained-reports=0"  # the minimal client keeps none either


@dataclass(slots=True)
class Measured:
    """Measurements of one of the two processes that are compared."""

    cpu_seconds: float
    wall_seconds: float
    rss_mb: float
    wrong: list[str]
    audited: Writes
    reported: Counter[str] = field(default_factory=Counter)  # writes, by the operator's own metric


def expected() -> list[Expected]:
    return [Expected(manifest=load.run(f"run-{number}", f"series-{number % SERIES}")) for number in range(RUNS)]


def with_operator() -> Measured:
    with (
        bench_cluster.fresh() as where,
        bench_cluster.operator(where.kubeconfig, where.directory / "operator.log", KEEPS_NO_REPORTS) as process,
    ):
        found = _measure(where, process.process.pid)
        found.reported = bench_cluster.reported_writes(process)
        return found


def with_minimal() -> Measured:
    with (
        bench_cluster.fresh() as where,
        bench_cluster.minimal(where.kubeconfig, where.directory / "minimal.log") as process,
    ):
        return _measure(where, process.pid)


def _measure(where: BenchCluster, pid: int) -> Measured:
    planned = expected()
    before = processes.cpu_seconds(pid)

    async def give_and_wait() -> tuple[float, float, list[str]]:
        async with KubeApi(where.cluster.kubeconfig) as api:
            started = time.monotonic()
            await load.some_at_once(load.insist(api, "POST", load.TESTS, one.manifest) for one in planned)
            await load.until_finished(api, RUNS, LIMIT_SECONDS)
            seconds = processes.cpu_seconds(pid) - before, time.monotonic() - started
            return *seconds, await load.wrong(api, planned)

    cpu_seconds, wall_seconds, wrong = asyncio.run(give_and_wait())
    return Measured(cpu_seconds, wall_seconds, bench_cluster.rss_mb(pid), wrong, where.writes())


def _differences(measured: Measured) -> Counter[str]:
    """Where metric and API server disagree, without the Lease, which may be renewed between the two readings."""
    reported, audited = measured.reported, measured.audited.by_kind
    words = (reported.keys() | audited.keys()) - {"update leases"}
    found = {word: abs(reported[word] - audited[word]) for word in words}
    return Counter({word: number for word, number in found.items() if number})


def _print(name: str, measured: Measured) -> None:
    written = measured.audited
    total = written.by_kind.total()
    say(
        f"  {name}: {measured.cpu_seconds:.2f} CPU s, {measured.wall_seconds:.0f} s, {measured.rss_mb:.0f} MB RSS, "
        f"{total} writes, {total / RUNS:.2f} a run"
    )
    for word, number in sorted(written.by_kind.items()):
        print(f"    {word}: {number}")
    for word, number in sorted(written.refused.items()):
        print(f"    refused: {word}: {number}")
    for line in (*measured.wrong[:20], *written.unchanged[:20]):
        print(f"    wrong: {line}")


def measure() -> list[Figure]:
    by_hand, ours = with_minimal(), with_operator()
    _print("minimal client", by_hand)
    _print("operator", ours)
    if differences := _differences(ours):
        print(f"    the operator's metric and the audit log differ: {dict(differences)}")
    ratio = ours.cpu_seconds / by_hand.cpu_seconds
    name = f"operator_{RUNS}_runs"
    return [
        exactly(f"{name}_wrong", len(ours.wrong), "runs"),
        exactly(f"{name}_by_minimal_client_wrong", len(by_hand.wrong), "runs"),
        at_most(f"{name}_cpu_by_minimal_client", ratio, "times", 3),
        exactly(f"{name}_writes_that_change_nothing", len(ours.audited.unchanged), "writes"),
        exactly(f"{name}_writes_metric_and_audit_differ", sum(differences.values()), "writes"),
    ]
