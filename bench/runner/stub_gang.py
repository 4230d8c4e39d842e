"""The protocol alone, with stub ranks: how a case's cost grows with ranks, all of them on this one machine."""

import statistics

from bench.figure import Figure
from bench.runner import gangs
from disttest_contract.gang.plan import SuitePlan

CASES = 100
ROUNDS = 3
# ranks: agents x ranks of each
GANGS = {2: (1, 2), 8: (1, 8), 64: (8, 8), 512: (64, 8)}
GOALS_MS = {2: 1.0, 8: 2.5, 64: 10.0, 512: 40.0}


def measure() -> list[Figure]:
    """Medians of alternating runs."""
    found: dict[int, list[float]] = {world: [] for world in GANGS}
    for number in range(ROUNDS):
        for world, (nodes, ranks) in GANGS.items():
            ran = gangs.run(SuitePlan(name="stubs", directory="/"), nodes=nodes, ranks=ranks, environ=environ())
            gangs.expect(ran, passed=CASES)
            found[world].append(ran.case_ms)
            print(
                f"  round {number + 1} of {ROUNDS}: {world} ranks on {nodes} agents: {ran.case_ms:.2f} ms a case, "
                f"agent 0 with the leader {1e3 * ran.own[0]['cases_cpu_seconds'] / CASES:.2f} ms of CPU, "
                f"all processes {ran.wall_seconds:.1f} s",
                flush=True,
            )
    return [
        Figure(
            name=f"stub_case_{world}_ranks",
            value=round(statistics.median(times), 2),
            unit="ms",
            compare="<=",
            goal=GOALS_MS[world],
        )
        for world, times in found.items()
    ]


def environ() -> dict[str, str]:
    return {gangs.ZYGOTE: "bench.runner.stub_zygote", gangs.CASES: str(CASES)}
