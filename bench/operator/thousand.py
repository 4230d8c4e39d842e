"""A thousand DistTests at once: all right, at which cost, and with which writes."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from bench.figure import Figure
from bench.operator import load, place, subject
from bench.operator.load import Expected
from bench.operator.place import BenchCluster

RUNS = 1000
SERIES = 20
LIMIT_SECONDS = 900


@dataclass(slots=True)
class Measured:
    """Of one of the two that are compared."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    rss_mb: float = 0.0
    wrong: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)  # writes by the operator's own metric
    seen: Counter[str] = field(default_factory=Counter)  # by the API server
    refused: Counter[str] = field(default_factory=Counter)
    idle: list[str] = field(default_factory=list)


def expected(count: int) -> list[Expected]:
    return [Expected(manifest=load.run(f"run-{number}", f"series-{number % SERIES}")) for number in range(count)]


def with_operator(count: int = RUNS) -> Measured:
    log, flags = "operator.log", ("--kept-reports=0",)  # the minimal client keeps none either
    with place.fresh() as where, subject.operator(where.kubeconfig, where.directory / log, *flags) as process:
        found = _measure(where, process.process.pid, count)
        found.told = subject.writes(process)
        _note_writes(found, where)
        return found


def with_minimal(count: int = RUNS) -> Measured:
    with place.fresh() as where, subject.minimal(where.kubeconfig, where.directory / "minimal.log") as process:
        found = _measure(where, process.pid, count)
        _note_writes(found, where)
        return found


def _measure(where: BenchCluster, pid: int, count: int) -> Measured:
    planned = expected(count)
    before = subject.cpu_seconds(pid)

    async def give_and_wait() -> Measured:
        async with load.kube_api(where.cluster.kubeconfig) as api:
            begun = asyncio.get_running_loop().time()
            await load.create(api, [one.manifest for one in planned])
            await load.until_finished(api, count, LIMIT_SECONDS)
            found = Measured(cpu_seconds=subject.cpu_seconds(pid) - before)
            found.wall_seconds = asyncio.get_running_loop().time() - begun
            found.wrong = await load.wrong(api, planned)
            return found

    found = asyncio.run(give_and_wait())
    found.rss_mb = subject.rss_mb(pid)
    return found


def _note_writes(found: Measured, where: BenchCluster) -> None:
    written = where.writes()
    found.seen, found.refused, found.idle = written.by_kind, written.refused, written.idle


def _differences(measured: Measured) -> Counter[str]:
    """Where the operator's metric and the API server disagree. The Lease may be renewed between the two looks."""
    words = measured.told.keys() | measured.seen.keys()
    found = {word: abs(measured.told[word] - measured.seen[word]) for word in words if word != "update leases"}
    return Counter({word: number for word, number in found.items() if number})


def _tell(name: str, measured: Measured, count: int) -> None:
    total = sum(measured.seen.values())
    print(
        f"  {name}: {measured.cpu_seconds:.2f} CPU s, {measured.wall_seconds:.0f} s, {measured.rss_mb:.0f} MB RSS, "
        f"{total} writes, {total / count:.2f} a run",
        flush=True,
    )
    for word, number in sorted(measured.seen.items()):
        print(f"    {word}: {number}")
    for word, number in sorted(measured.refused.items()):
        print(f"    refused: {word}: {number}")
    for line in (*measured.wrong[:20], *measured.idle[:20]):
        print(f"    wrong: {line}")


def measure(count: int = RUNS) -> list[Figure]:
    by_hand, ours = with_minimal(count), with_operator(count)
    _tell("minimal client", by_hand, count)
    _tell("operator", ours, count)
    if differences := _differences(ours):
        print(f"    the operator's metric and the audit log differ: {dict(differences)}")
    ratio = ours.cpu_seconds / by_hand.cpu_seconds
    name = f"operator_{count}_runs"
    return [
        Figure(name=f"{name}_wrong", value=len(ours.wrong), unit="runs", compare="==", goal=0),
        Figure(name=f"{name}_by_minimal_client_wrong", value=len(by_hand.wrong), unit="runs", compare="==", goal=0),
        Figure(name=f"{name}_cpu_by_minimal_client", value=round(ratio, 2), unit="times", compare="<=", goal=3),
        Figure(name=f"{name}_writes_that_change_nothing", value=len(ours.idle), unit="writes", compare="==", goal=0),
        Figure(
            name=f"{name}_writes_metric_and_audit_differ",
            value=sum(differences.values()),
            unit="writes",
            compare="==",
            goal=0,
        ),
    ]
