"""Every fault of the tests' table, shown once: fault, outcome, seconds. Kept in docs/faults.md."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.figure import Figure
from tests.integration.runner.faults import table
from tests.integration.runner.faults.fault import Fault, FaultResult, problems

FILE = Path(__file__).resolve().parents[1] / "docs" / "faults.md"
BEGIN, END = "<!-- faults: written by make bench-faults -->", "<!-- end of faults -->"
HEAD = "| fault | outcome | blamed | seconds | at most | what follows | as expected |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    fault: Fault
    found: FaultResult | None = None
    lacks: str = ""  # why it could not be shown here

    @property
    def problems(self) -> list[str]:
        return problems(self.fault, self.found) if self.found else ["the run did not come that far"]

    @property
    def line(self) -> str:
        fault, found = self.fault, self.found
        if self.lacks or found is None:
            outcome, seconds, judged = fault.outcome, "", f"not shown: {self.lacks}" if self.lacks else "**not shown**"
            ranks, after = fault.ranks, str(fault.after)
        else:
            outcome, seconds, ranks, after = found.outcome, f"{found.seconds:.2f}", found.ranks, str(found.after)
            judged = "yes" if not self.problems else f"**no: {'; '.join(self.problems)}**"
        blamed = ", ".join(map(str, ranks))
        cells = (fault.name, outcome, blamed, seconds, f"{fault.limit_seconds:g}", after, judged)
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def rows() -> Iterable[FaultRow]:
    for trial in table.TRIALS:
        lacks = trial.lacks()
        found = {} if lacks else table.found(trial)
        for fault in trial.faults:
            yield FaultRow(fault=fault, found=found.get(fault.name), lacks=lacks)


def measure() -> list[Figure]:
    print(HEAD)
    shown = []
    for row in rows():
        print(row.line, flush=True)
        shown.append(row)
    FILE.write_text(between(FILE.read_text(), "\n".join([HEAD, *(row.line for row in shown)])))
    tried = [row for row in shown if not row.lacks]
    right = sum(not row.problems for row in tried)
    return [
        Figure(name="faults_as_expected", value=right, unit="faults", compare=">=", goal=len(tried)),
        Figure(name="faults_not_shown_here", value=len(shown) - len(tried), unit="faults", compare="==", goal=0),
    ]


def between(text: str, new: str) -> str:
    """The text with what stands between the marks replaced."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"{FILE.name} lacks the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
