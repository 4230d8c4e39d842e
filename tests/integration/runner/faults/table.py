"""Every fault that the runner is held to survive, by the runs that show them. The tests and docs/faults.md read it."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.integration.runner.faults import in_cases, in_files, in_gangs, on_machines
from tests.integration.runner.faults.fault import Fault, FaultResult
from tests.integration.runner.faults.in_cases import CASE_SECONDS, CRASHES, FAILURES, HANGS
from tests.integration.runner.faults.in_files import FILES
from tests.integration.runner.faults.trial import Trial
from tests.integration.runner.faults.untidy import UNTIDY
from tests.support import patience
from tests.support.gangs.gang import AgentGang, make_plan

SUITES = {"crashes": CRASHES, "failures": FAILURES, "hangs": HANGS, "untidy": UNTIDY}


def _show_cases(folder: Path) -> dict[str, FaultResult]:
    """One gang of 2 x 2 ranks for all faults of test code."""
    suites = [in_cases.suite(folder, name, faults) for name, faults in SUITES.items()]
    plan = make_plan(*suites, *in_files.suites(folder), case_seconds=CASE_SECONDS, run_seconds=400)
    gang = AgentGang(plan, folder)
    try:
        report = gang.run(500)
    finally:
        gang.end()
    found = in_files.read(report)
    for result in report.suites:
        found |= in_cases.read(result, SUITES.get(result.name, ()))
    return {name: replace(one, log=gang.text) for name, one in found.items()}


TRIALS: tuple[Trial, ...] = (
    Trial(title="test code", faults=(*CRASHES, *FAILURES, *HANGS, *UNTIDY, *FILES), show=_show_cases),
    *in_gangs.TRIALS,
    *on_machines.TRIALS,
)
FAULTS: tuple[tuple[Trial, Fault], ...] = tuple((trial, fault) for trial in TRIALS for fault in trial.faults)


@functools.cache
def found(trial: Trial) -> dict[str, FaultResult]:
    """Shown once, however many of its faults are looked at. A gang's own timeouts follow the load at its start."""
    slower = patience.slowdown()
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        shown = trial.show(Path(folder))
    slower = max(slower, patience.slowdown())
    return {name: replace(one, slower=slower) for name, one in shown.items()}
