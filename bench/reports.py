"""What reports of the largest size cost the command line: valid ones, hostile ones, and one that is too large."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure, at_most
from disttest_contract import limits

PROGRAM = (sys.executable, "-m", "disttest_cli.main")
FORMATS = ("text", "json", "junit", "ctrf", "html", "markdown")
GOALS = {"sound": 10, "hurting": 60}  # CPU seconds
CASES = {"sound": limits.CASES, "hurting": 70_000}  # more hostile texts exceed the limit of a report in memory
PEAK_MB = 1024
TOO_MANY = 1_000_000
HEAD = {
    "schema": 2,
    "run": {"namespace": "ci", "uid": "u", "attempt": 1, "series": "s"},
    "world": {"backend": "nccl", "nodes": 2, "ranksPerNode": 8, "nodeNames": ["a", "b"]},
    "verdict": "TestsFailed",
    "reason": "CasesFailed",
    "times": {"started": 1e9, "finished": 1e9 + 1000},
    "generations": 1,
}
HOSTILE = ("é\u0301" * 8 + "::x ##[e] \x1b[2J ") * 4


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for kind, goal in GOALS.items():
            a, b = (write(Path(folder) / f"{number}.json", kind, CASES[kind], name=f"n{number}") for number in "ab")
            peaks = []
            for name in FORMATS:
                seconds, peak = _run("report", "-f", a, "-o", name)
                peaks.append(peak)
                yield _figure(f"report_{name}_{kind}", seconds, goal)
            seconds, peak = _run("compare", a, b, "-o", "json", "--exit-zero")
            yield _figure(f"compare_{kind}", seconds, goal)
            yield at_most(f"report_peak_{kind}", round(max(*peaks, peak)), "MB", PEAK_MB)
        too_large = write(Path(folder) / "a.json", "tiny", TOO_MANY, name="n")
        yield _figure("report_of_a_million_refused", _run("report", "-f", too_large, code=2)[0], 2)


def _figure(name: str, seconds: float, goal: float) -> Figure:
    return at_most(name, seconds, "s", goal, digits=1)


def write(path: Path, kind: str, count: int, *, name: str) -> str:
    """Write it case by case, since the memory of this process counts as that of its children."""
    run = {**HEAD, "run": {"name": name, **HEAD["run"]}}  # type: ignore[dict-item]  # a mapping
    suite = {"name": "mine", "verdict": "TestsFailed", "reason": "CasesFailed", "seconds": 1000.0, "cases": []}
    head, tail = json.dumps({**run, "suites": [suite]}).split('"cases": []')
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{head}"cases": [')
        for number in range(count):
            case = json.dumps(_case(kind, number), ensure_ascii=False, separators=(",", ":"))
            file.write(f"{',' if number else ''}{case}")
        file.write(f"]{tail}")
    return str(path)


def _case(kind: str, number: int) -> dict[str, Any]:
    if kind == "tiny":
        return {"id": f"t.py::test_{number}", "outcome": "passed", "seconds": 0}
    if kind == "hurting":
        name = f"t{number}e{chr(0x301) * 20}\u202e"
        return {"id": name, "outcome": "failed", "seconds": 0.5, "message": HOSTILE}
    case = {"id": f"tests/test_mine.py::TestMine::test_{number}[dtype0-{number % 7}]", "at": number * 0.01}
    if number % 100:
        return {**case, "outcome": "passed", "seconds": (number * 37 % 1000) / 1000}
    message = "rank 3 on gpu-1:\nE  AssertionError: 1 != 2"
    return {**case, "outcome": "failed", "seconds": 0.5, "message": message, "ranks": [3], "nodes": ["gpu-1"]}


def _run(*arguments: str, code: int = 0) -> tuple[float, float]:
    return used_by([*PROGRAM, *arguments], os.environ, code=code)


def used_by(command: Sequence[str], environ: Mapping[str, str], *, code: int = 0) -> tuple[float, float]:
    """Run a command; return its CPU seconds and peak MB. Another exit code than `code` ends the benchmark."""
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, state, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(state)
    if process.returncode != code:
        raise SystemExit(f"bench: {' '.join(command)} ended with exit code {process.returncode}, not {code}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
