"""Cases of torch's own suite, by torch's own spawning: the other side of a comparison with the suite c10d-spawn.

from bench import upstream_sample
theirs = upstream_sample.run_upstream()           # processes are spawned for each case
plan = ...upstream_sample.SUITE...                # ours: the same cases, by name
ours = upstream_sample.outcomes_of(report)        # comparable with theirs.outcomes
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.report import Report

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
SUITE = SuitePlan(name="c10d-spawn", builtin="c10d-spawn", select=" or ".join(CASES))

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
class Sample:
    """`seconds` is all of it; `case_seconds` what unittest counts: without its own start, with every spawned import."""

    seconds: float
    case_seconds: float
    cpu_seconds: float
    outcomes: dict[str, str]
    problems: tuple[str, ...]  # on a machine that is busy, torch's own barrier runs out after 10 s


def run_upstream(cases: tuple[str, ...] = CASES) -> Sample:
    """Torch's harness as it is, on gloo. Raises RuntimeError if it did not run all of them."""
    with tempfile.TemporaryDirectory() as folder:
        environ = os.environ | ENVIRONMENT | {"TEMP_DIR": folder}
        for part in ("barrier", "test_dir", "init_dir"):
            Path(folder, part).mkdir()
        before, started = _cpu_of_children(), time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *(f"{CLASS}.{case}" for case in cases)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        seconds, cpu_seconds = time.monotonic() - started, _cpu_of_children() - before
    try:
        result = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise RuntimeError(f"torch's harness gave no result:\n{done.stderr[-3000:]}") from None
    if result["ran"] != len(cases):
        raise RuntimeError(f"torch's harness ran {result['ran']} of {len(cases)} cases:\n{done.stderr[-3000:]}")
    outcomes = dict.fromkeys(cases, "passed")
    outcomes |= dict.fromkeys((name.split(".")[-1] for name in result["skipped"]), "skipped")
    outcomes |= dict.fromkeys((name.split(".")[-1] for name, _ in result["bad"]), "failed")
    return Sample(
        seconds=seconds,
        case_seconds=result["seconds"],
        cpu_seconds=cpu_seconds,
        outcomes=outcomes,
        problems=tuple(text for _, text in result["bad"]),
    )


def outcomes_of(report: Report) -> dict[str, str]:
    return {case.id.split("::")[-1]: case.outcome.value for suite in report.suites for case in suite.cases}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
