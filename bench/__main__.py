"""`python -m bench [NAME …]`: run benchmarks, print their figures and keep them in docs/development/figures.txt."""

import sys
from collections.abc import Callable, Iterable, Iterator

from bench import cli_start, compiled, main_job, make_targets, reports
from bench.figure import Figure, record
from bench.operator import apply_to_job, finished_runs, many_runs, scrape, under_faults
from bench.runner import cases, forking, hang, leading, upstream
from devcluster.machine.settings import DevClusterError
from tools.release.commit import ReleaseError


def runner() -> Iterator[Figure]:
    """What the runner costs and how it scales; about eight minutes."""
    for name, group in (("forking", forking), ("leading", leading), ("upstream", upstream)):
        print(f"bench-runner: {name}", flush=True)
        yield from group.measure()


BENCHMARKS: dict[str, Callable[[], Iterable[Figure]]] = {
    "cli-start": cli_start.measure,
    "demo": make_targets.measure_demo,
    "demo-cold": make_targets.measure_cold_demo,
    "empty-cases": cases.measure_empty_cases,
    "stub-ranks": cases.measure_stub_ranks,
    "apply-to-job": apply_to_job.measure,
    "compiled": compiled.measure,
    "main-job": main_job.measure,
    "make-test": make_targets.measure_test,
    "hang": hang.measure,
    "reports": reports.measure,
    "runner": runner,
    "operator-runs": many_runs.measure,
    "operator-scale": finished_runs.measure,
    "operator-scrape": scrape.measure,
    "operator-faults": under_faults.measure,
}
BY_NAME_ONLY = {"demo-cold", "make-test"}  # gigabytes of downloads; a quarter of an hour


def main() -> int:
    """Exit code 1 if a goal was missed, 2 for a wrong name."""
    names = sys.argv[1:] or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"bench: unknown {', '.join(unknown)}; known: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    try:
        for figure in (figure for name in names for figure in BENCHMARKS[name]()):
            print(figure.line, flush=True)
            figures.append(figure)
    except (DevClusterError, ReleaseError) as error:
        raise SystemExit(f"bench: {error}") from error
    record(figures)
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
