"""Every fault that the runner has to survive, with its runs, and the lists in docs/development/faults.md."""

import functools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.integration.runner.faults import in_cases, in_files, in_gangs, on_devices, on_machines
from tests.integration.runner.faults.fault import After, Fault, FaultResult, Trial, problems
from tests.integration.runner.faults.in_cases import CASE_SECONDS, CRASHES, FAILURES, HANGS
from tests.integration.runner.faults.in_files import FILES
from tests.integration.runner.faults.untidy import UNTIDY
from tests.support import patience
from tests.support.gangs.gang import AgentGang, make_plan
from tests.support.paths import ROOT

FILE = ROOT / "docs/development/faults.md"
BEGIN, END = "<!-- faults: written by make bench-faults -->", "<!-- end of faults -->"
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
    *on_devices.TRIALS,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """A line of docs/development/faults.md."""

    fault: Fault
    found: FaultResult | None = None
    lacks: str = ""  # why it could not be shown here

    @property
    def problems(self) -> list[str]:
        return problems(self.fault, self.found) if self.found else ["the run did not come that far"]

    @property
    def line(self) -> str:
        """An item of its group's list."""
        note = ""
        if self.lacks:
            note = f" (not tested: {self.lacks})"
        elif self.found is None or self.problems:
            note = f" (**not as expected: {'; '.join(self.problems)}**)"
        return f"- {self.fault.name}{note}".replace("\n", " ")


def rows() -> Iterator[FaultRow]:
    for trial in TRIALS:
        lacks = trial.lacks()
        shown = {} if lacks else found(trial)
        for fault in trial.faults:
            yield FaultRow(fault=fault, found=shown.get(fault.name), lacks=lacks)


def document(shown: Iterable[FaultRow]) -> str:
    """Return the lists of faults, one for each outcome, with its longest time until a report."""
    groups: dict[tuple[str, After], list[FaultRow]] = {}
    for row in shown:
        groups.setdefault((row.fault.outcome, row.fault.after), []).append(row)
    blocks = []
    for (outcome, after), members in groups.items():
        seconds = max((row.found.seconds for row in members if row.found), default=0)
        head = f"**{outcome}** within {seconds:.2f} s. {str(after).capitalize()}:"
        blocks.append("\n".join(["", head, "", *(row.line for row in members)]))
    return "\n".join(blocks)


def write_document() -> list[FaultRow]:
    """Show every fault, print its line, and replace the lists of docs/development/faults.md."""
    shown = []
    for row in rows():
        seconds = f"{row.found.seconds:.2f} s" if row.found else ""
        print(row.fault.outcome, row.line, seconds, flush=True)
        shown.append(row)
    before, mark, rest = FILE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{FILE.name} lacks the lines {BEGIN!r} and {END!r}")
    FILE.write_text("\n".join([f"{before}{BEGIN}", document(shown), "", f"{END}{after}"]))
    return shown
