"""The golden tables of c10d-spawn on gloo: which of its cases pass, and why the others are skipped.

python -m tests.integration.runner.suites.c10d_table NODES RANKS FILE    runs the suite and writes the table
"""

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult, Report
from tests.support.gangs.gang import AgentGang, builtin, make_plan, only_suite
from tests.support.paths import TESTS

DATA = TESTS / "data"
SECONDS = 540


def run(
    folder: Path,
    *,
    nodes: int,
    ranks: int,
    python: Path = Path(sys.executable),
    environ: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """Nodes have different folders for temporary files, as pods do."""
    own = {}
    for node in range(nodes):
        (folder / f"node-{node}").mkdir()
        own[node] = {"TMPDIR": str(folder / f"node-{node}")}
    plan = make_plan(builtin("c10d-spawn"), nodes=nodes, ranks=ranks, case_seconds=60, run_seconds=SECONDS)
    return AgentGang(plan, folder, own=own, python=python, environ=environ).run(SECONDS + 30)


def table(cases: tuple[CaseResult, ...]) -> dict[str, Any]:
    """Names by outcome, skipped ones by reason."""
    by_outcome: dict[str, list[str]] = defaultdict(list)
    by_reason: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        name = case.id.split("::")[-1]
        if case.outcome is Outcome.SKIPPED:
            by_reason[case.message].append(name)
        else:
            by_outcome[case.outcome.value].append(name)
    outcomes = {outcome: sorted(names) for outcome, names in sorted(by_outcome.items())}
    return outcomes | {"skipped": {reason: sorted(names) for reason, names in sorted(by_reason.items())}}


def golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / name).read_text())
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        report = run(Path(temporary), nodes=int(sys.argv[1]), ranks=int(sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(table(only_suite(report).cases), indent=1) + "\n")
