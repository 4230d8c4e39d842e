"""`python -m bench [NAME …]`: run benchmarks, print their figures and keep them in docs/figures.txt."""

import os
import platform
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from bench import cli_start, compiled, faults, first_verdict, hang, main_job, make_test, reports, runner, storm
from bench.figure import Figure, merge
from bench.operator import apply_to_job, scrape, siege, thousand
from bench.operator import scale as finished_runs
from bench.runner import cases, stub_gang

FILE = Path(__file__).resolve().parents[1] / "docs" / "figures.txt"
BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "cli-start": cli_start.measure,
    "demo": first_verdict.measure,
    "demo-cold": first_verdict.measure_cold,
    "empty-cases": cases.measure,
    "stub-ranks": stub_gang.measure,
    "apply-to-job": apply_to_job.measure,
    "compiled": compiled.measure,
    "main-job": main_job.measure,
    "make-test": make_test.measure,
    "hang": hang.measure,
    "faults": faults.measure,
    "storm": storm.measure,
    "reports": reports.measure,
    "runner": runner.measure,
    "operator-runs": thousand.measure,
    "operator-scale": finished_runs.measure,
    "operator-scrape": scrape.measure,
    "operator-faults": siege.measure,
}
BY_NAME_ONLY = {"demo-cold", "make-test"}  # gigabytes of downloads; a quarter of an hour


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}"


def main() -> int:
    """Exit code 1 if a goal was missed, 2 for a wrong name."""
    names = sys.argv[1:] or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"bench: unknown {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in names:
        for figure in BENCHMARKS[name]():
            print(figure.line, flush=True)
            figures.append(figure)
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"
    old = FILE.read_text().splitlines() if FILE.exists() else []
    lines = merge(old, [f"{figure.line}   # {stamp}" for figure in figures])
    FILE.write_text("\n".join(lines) + "\n")
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
