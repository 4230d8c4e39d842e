"""The same cases of torch's own suite, started by torch's harness and by us in turns; then that suite as a whole."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from bench.figure import Figure, at_least, at_most
from bench.runner import gangs
from bench.runner.gangs import Ran, children_cpu_seconds
from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Verdict
from tools.demo.session import say

ROUNDS = 3
WHOLE_ROUNDS = 3
TRIES = 3  # of torch's harness

# No name is a part of another case's, so that pytest's -k finds these and no others.
CASES = (
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_coalesced_complex",
    "test_all_gather_coalesced_with_empty",
    "test_all_reduce_coalesced_full_group_product",
    "test_ddp_create_graph",
    "test_gather_full_group",
    "test_get_future",
    "test_scatter_full_group",
)
WHOLE = SuitePlan(name="c10d-spawn", builtin="c10d-spawn")
SUITE = replace(WHOLE, select=" or ".join(CASES))

CLASS = "disttest_runner.suites.c10d_spawn.TestDistBackendWithSpawn"
RANKS = 2
LIMIT_SECONDS = 900
ENVIRONMENT = {
    "BACKEND": "gloo",
    "WORLD_SIZE": str(RANKS),
    "INIT_METHOD": "file:///unused",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
# Its last line on stdout is the result; the spawned processes write to stderr.
PROGRAM = """
import json, sys, time, unittest
names = sys.argv[1:]
suite = unittest.defaultTestLoader.loadTestsFromNames(names)
started = time.monotonic()
result = unittest.TextTestRunner(verbosity=0).run(suite)
bad = [(test.id(), text) for test, text in result.failures + result.errors]
skipped = [test.id() for test, _ in result.skipped]
print(json.dumps({"ran": result.testsRun, "bad": bad, "skipped": skipped, "seconds": time.monotonic() - started}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSample:
    """One run of torch's harness, which spawns the processes of each case."""

    seconds: float
    case_seconds: float  # as unittest counts: without its own start, with every spawned import
    cpu_seconds: float
    outcomes: dict[str, str]
    problems: tuple[str, ...]  # on a busy machine torch's own barrier times out after 10 s


def run_upstream() -> UpstreamSample:
    """Run torch's harness unchanged, on gloo; raise RuntimeError if it did not run all cases."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("barrier", "test_dir", "init_dir"):
            Path(folder, part).mkdir()
        before, started = children_cpu_seconds(), time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *(f"{CLASS}.{case}" for case in CASES)],
            env=os.environ | ENVIRONMENT | {"TEMP_DIR": folder},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        seconds, cpu_seconds = time.monotonic() - started, children_cpu_seconds() - before
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise RuntimeError(f"torch's harness gave no result:\n{done.stderr[-3000:]}") from None
    if result["ran"] != len(CASES):
        raise RuntimeError(f"torch's harness ran {result['ran']} of {len(CASES)} cases:\n{done.stderr[-3000:]}")
    outcomes = dict.fromkeys(CASES, "passed")
    outcomes |= dict.fromkeys((name.split(".")[-1] for name in result["skipped"]), "skipped")
    outcomes |= dict.fromkeys((name.split(".")[-1] for name, _ in result["bad"]), "failed")
    return UpstreamSample(
        seconds=seconds,
        case_seconds=result["seconds"],
        cpu_seconds=cpu_seconds,
        outcomes=outcomes,
        problems=tuple(text for _, text in result["bad"]),
    )


def measure() -> list[Figure]:
    """Return medians over rounds of the ratios within a round."""
    ratios: dict[str, list[float]] = {"cases_wall": [], "wall": [], "cpu": []}
    for number in range(ROUNDS):
        theirs, ours = their_run(), gangs.run(SUITE, nodes=1, ranks=RANKS)
        check_equal(theirs, ours)
        cases_seconds = ours.case_ms * ours.report.counts.total / 1e3
        ratios["cases_wall"].append(theirs.case_seconds / cases_seconds)
        ratios["wall"].append(theirs.seconds / ours.wall_seconds)
        ratios["cpu"].append(theirs.cpu_seconds / ours.cpu_seconds)
        say(
            f"  round {number + 1} of {ROUNDS}, {len(theirs.outcomes)} cases: "
            f"theirs {theirs.seconds:.1f} s wall (cases {theirs.case_seconds:.1f}), {theirs.cpu_seconds:.1f} s CPU; "
            f"ours {ours.wall_seconds:.2f} s wall (cases {cases_seconds:.2f}), {ours.cpu_seconds:.2f} s CPU"
        )
    goals = {"cases_wall": 100, "wall": 10, "cpu": 15}
    saved = [
        at_least(f"upstream_spawning_{name}_saved", statistics.median(found), "times", goals[name], digits=1)
        for name, found in ratios.items()
    ]
    return [*saved, whole()]


def their_run() -> UpstreamSample:
    """Repeat if a case failed: none of the sample fails unless the machine is too busy."""
    for _ in range(TRIES):
        theirs = run_upstream()
        if not theirs.problems:
            return theirs
    raise SystemExit(f"bench: torch's own harness failed {TRIES} times, at last with:\n{theirs.problems[0][-2000:]}")


def check_equal(theirs: UpstreamSample, ours: Ran) -> None:
    cases = (case for suite in ours.report.suites for case in suite.cases)
    found = {case.id.split("::")[-1]: case.outcome.value for case in cases}
    if found != theirs.outcomes:
        raise SystemExit(f"bench: outcomes differ: theirs {theirs.outcomes}, ours {found}")


def whole() -> Figure:
    seconds = []
    for number in range(WHOLE_ROUNDS):
        ran = gangs.run(WHOLE, nodes=1, ranks=RANKS)
        if ran.report.verdict is not Verdict.PASSED:
            raise SystemExit(f"bench: c10d-spawn ended as {ran.report.verdict}: {ran.report.message}")
        seconds.append(ran.wall_seconds)
        say(
            f"  all {ran.report.counts.total} cases, round {number + 1} of {WHOLE_ROUNDS}: {ran.wall_seconds:.1f} s "
            f"wall (cases {ran.case_ms * ran.report.counts.total / 1e3:.1f}), {ran.cpu_seconds:.1f} s CPU"
        )
    return at_most("c10d_spawn_all_in", statistics.median(seconds), "s", 12, digits=1)
