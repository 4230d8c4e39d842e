"""The same cases of torch's own suite by torch's own spawning and by us, alternating; then that suite as a whole."""

import statistics

from bench import upstream_sample
from bench.figure import Figure
from bench.runner import gangs
from bench.runner.gangs import Ran
from bench.upstream_sample import Sample
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Verdict

ROUNDS = 3
WHOLE_ROUNDS = 3
TRIES = 3  # of the other side: on a busy machine torch's own barrier runs out
WHOLE = SuitePlan(name="c10d-spawn", builtin="c10d-spawn")


def measure() -> list[Figure]:
    """Medians over rounds of the ratios within a round."""
    ratios: dict[str, list[float]] = {"cases_wall": [], "wall": [], "cpu": []}
    for number in range(ROUNDS):
        theirs, ours = their_run(), gangs.run(upstream_sample.SUITE, nodes=1, ranks=upstream_sample.RANKS)
        check_equal(theirs, ours)
        cases_seconds = ours.case_ms * ours.report.counts.total / 1e3
        ratios["cases_wall"].append(theirs.case_seconds / cases_seconds)
        ratios["wall"].append(theirs.seconds / ours.wall_seconds)
        ratios["cpu"].append(theirs.cpu_seconds / ours.cpu_seconds)
        print(
            f"  round {number + 1} of {ROUNDS}, {len(theirs.outcomes)} cases: "
            f"theirs {theirs.seconds:.1f} s wall (cases {theirs.case_seconds:.1f}), {theirs.cpu_seconds:.1f} s CPU; "
            f"ours {ours.wall_seconds:.2f} s wall (cases {cases_seconds:.2f}), {ours.cpu_seconds:.2f} s CPU",
            flush=True,
        )
    goals = {"cases_wall": 100, "wall": 10, "cpu": 15}
    saved = [
        Figure(
            name=f"upstream_spawning_{name}_saved",
            value=round(statistics.median(found), 1),
            unit="times",
            compare=">=",
            goal=goals[name],
        )
        for name, found in ratios.items()
    ]
    return [*saved, whole()]


def their_run() -> Sample:
    """Again if a case failed, which is the load's doing: the sample holds none that fails."""
    for _ in range(TRIES):
        theirs = upstream_sample.run_upstream()
        if not theirs.problems:
            return theirs
    raise SystemExit(f"bench: torch's own harness failed {TRIES} times, at last with:\n{theirs.problems[0][-2000:]}")


def check_equal(theirs: Sample, ours: Ran) -> None:
    found = upstream_sample.outcomes_of(ours.report)
    if found != theirs.outcomes:
        raise SystemExit(f"bench: outcomes differ: theirs {theirs.outcomes}, ours {found}")


def whole() -> Figure:
    seconds = []
    for number in range(WHOLE_ROUNDS):
        ran = gangs.run(WHOLE, nodes=1, ranks=upstream_sample.RANKS)
        if ran.report.verdict is not Verdict.PASSED:
            raise SystemExit(f"bench: c10d-spawn came to {ran.report.verdict}: {ran.report.message}")
        seconds.append(ran.wall_seconds)
        print(
            f"  all {ran.report.counts.total} cases, round {number + 1} of {WHOLE_ROUNDS}: {ran.wall_seconds:.1f} s "
            f"wall (cases {ran.case_ms * ran.report.counts.total / 1e3:.1f}), {ran.cpu_seconds:.1f} s CPU",
            flush=True,
        )
    return Figure(name="c10d_spawn_all_in", value=round(statistics.median(seconds), 1), unit="s", compare="<=", goal=12)
