"""A thousand DistTests at once: their verdicts, the operator's CPU and memory, and its writes."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from bench.figure import Figure, at_most, exactly
from bench.operator import bench_cluster, load
from bench.operator.bench_cluster import BenchCluster
from bench.operator.load import Expected
from devcluster.controlplane.kubeapi import KubeApi

RUNS = 1000
SERIES = 20
LIMIT_SECONDS = 900
KEEPS_NO_REPORTS = "--kept-reports=0"  # the minimal client keeps none either


@dataclass(slots=True)
class Measured:
    """Measurements of one of the two processes that are compared."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    rss_mb: float = 0.0
    wrong: list[str] = field(default_factory=list)
    reported: Counter[str] = field(default_factory=Counter)  # writes, by the operator's own metric
    audited: Counter[str] = field(default_factory=Counter)  # writes, by the API server
    refused: Counter[str] = field(default_factory=Counter)
    unchanged: list[str] = field(default_factory=list)


def expected(count: int) -> list[Expected]:
    return [Expected(manifest=load.run(f"run-{number}", f"series-{number % SERIES}")) for number in range(count)]


def with_operator(count: int = RUNS) -> Measured:
    with (
        bench_cluster.fresh() as where,
        bench_cluster.operator(where.kubeconfig, where.directory / "operator.log", KEEPS_NO_REPORTS) as process,
    ):
        found = _measure(where, process.process.pid, count)
        found.reported = bench_cluster.reported_writes(process)
        return found


def with_minimal(count: int = RUNS) -> Measured:
    with (
        bench_cluster.fresh() as where,
        bench_cluster.minimal(where.kubeconfig, where.directory / "minimal.log") as process,
    ):
        return _measure(where, process.pid, count)


def _measure(where: BenchCluster, pid: int, count: int) -> Measured:
    planned = expected(count)
    before = bench_cluster.cpu_seconds(pid)

    async def give_and_wait() -> Measured:
        async with KubeApi(where.cluster.kubeconfig) as api:
            started = asyncio.get_running_loop().time()
            await load.create(api, [one.manifest for one in planned])
            await load.until_finished(api, count, LIMIT_SECONDS)
            found = Measured(cpu_seconds=bench_cluster.cpu_seconds(pid) - before)
            found.wall_seconds = asyncio.get_running_loop().time() - started
            found.wrong = await load.wrong(api, planned)
            return found

    found = asyncio.run(give_and_wait())
    found.rss_mb = bench_cluster.rss_mb(pid)
    written = where.writes()
    found.audited, found.refused, found.unchanged = written.by_kind, written.refused, written.unchanged
    return found


def _differences(measured: Measured) -> Counter[str]:
    """Where metric and API server disagree, without the Lease, which may be renewed between the two readings."""
    words = measured.reported.keys() | measured.audited.keys()
    found = {word: abs(measured.reported[word] - measured.audited[word]) for word in words if word != "update leases"}
    return Counter({word: number for word, number in found.items() if number})


def _print(name: str, measured: Measured, count: int) -> None:
    total = sum(measured.audited.values())
    print(
        f"  {name}: {measured.cpu_seconds:.2f} CPU s, {measured.wall_seconds:.0f} s, {measured.rss_mb:.0f} MB RSS, "
        f"{total} writes, {total / count:.2f} a run",
        flush=True,
    )
    for word, number in sorted(measured.audited.items()):
        print(f"    {word}: {number}")
    for word, number in sorted(measured.refused.items()):
        print(f"    refused: {word}: {number}")
    for line in (*measured.wrong[:20], *measured.unchanged[:20]):
        print(f"    wrong: {line}")


def measure(count: int = RUNS) -> list[Figure]:
    by_hand, ours = with_minimal(count), with_operator(count)
    _print("minimal client", by_hand, count)
    _print("operator", ours, count)
    if differences := _differences(ours):
        print(f"    the operator's metric and the audit log differ: {dict(differences)}")
    ratio = ours.cpu_seconds / by_hand.cpu_seconds
    name = f"operator_{count}_runs"
    return [
        exactly(f"{name}_wrong", len(ours.wrong), "runs"),
        exactly(f"{name}_by_minimal_client_wrong", len(by_hand.wrong), "runs"),
        at_most(f"{name}_cpu_by_minimal_client", ratio, "times", 3),
        exactly(f"{name}_writes_that_change_nothing", len(ours.unchanged), "writes"),
        exactly(f"{name}_writes_metric_and_audit_differ", sum(differences.values()), "writes"),
    ]
