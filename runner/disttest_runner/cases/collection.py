"""The result of a collection: problems, differences between ranks, selected and repeated cases. Pure."""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from disttest_contract import limits
from disttest_contract.gang.plan import FOR_EVER, RunPlan
from disttest_contract.text import formatting

EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning)\b")
SHOWN = 5  # cases named in a sentence
NEAR = 3  # suggested ids
MISSING = 3  # missing cases named in a sentence
SHOWN_BYTES = 160  # of one id
KEPT_CASES = 10_000  # good results kept of a repetition until the first failure


def cause(text: str) -> str:
    """Return the line of pytest's failure text that explains most: the exception, else the last line."""
    marked = formatting.marked_lines(text)
    lines = marked or [line.strip() for line in text.splitlines() if line.strip()]
    return next(filter(EXCEPTION.match, lines), lines[0 if marked else -1] if lines else "no error message")


def prefix(folder: str, root: Path) -> str:
    """Return the prefix of ids relative to `root` that ids relative to `folder` below it do not have."""
    if not folder or not Path(folder).is_relative_to(root) or Path(folder) == root:
        return ""
    return f"{Path(folder).relative_to(root).as_posix()}/"


def difference(ids: tuple[str, ...], others: tuple[str, ...]) -> str:
    """Describe the cases that two collections do not share, or the first difference in their order."""
    ours, theirs = set(ids), set(others)
    lacking = [case_id for case_id in ids if case_id not in theirs]
    extra = [case_id for case_id in others if case_id not in ours]
    parts = [
        f"{word} {formatting.listed(cases, SHOWN)}" for word, cases in (("without", lacking), ("with", extra)) if cases
    ]
    if parts:
        return "; ".join(parts)
    pairs = enumerate(zip(ids, others, strict=False))
    place = next((number for number, (one, other) in pairs if one != other), min(len(ids), len(others)))
    return f"the same cases in a different order, starting at number {place + 1}"


def missing_cases(collected: Sequence[str], wanted: Iterable[str]) -> str:
    known = set(collected)
    lost = [case_id for case_id in dict.fromkeys(wanted) if case_id not in known]
    if not lost:
        return ""
    more = [f"and {len(lost) - MISSING} more that do not exist"] if len(lost) > MISSING else []
    return "; ".join([*(_missing(case_id, collected) for case_id in lost[:MISSING]), *more])


def _missing(case_id: str, collected: Sequence[str]) -> str:
    near = _near(case_id, collected)
    if near:
        more = f" ({len(near) - NEAR} more with this start)" if len(near) > NEAR else ""
        advice = f"did you mean {' or '.join(map(_show, near[:NEAR]))}?{more}"
    elif collected:
        advice = f"it has {len(collected)}, the first is {_show(collected[0])}"
    else:
        advice = "it has none"
    return f"the suite has no case {_show(case_id)}: {advice}"


def _near(case_id: str, collected: Sequence[str]) -> Sequence[str]:
    """Return its parametrized cases, else cases that start like it in its file or another, else similar ids."""
    function = case_id.rpartition("::")[2]
    for begin in (f"{case_id}[", case_id):
        if found := [one for one in collected if one.startswith(begin)]:
            return found
    for begin in (f"::{function}[", f"::{function}"):
        if found := [one for one in collected if function and begin in one]:
            return found
    return difflib.get_close_matches(case_id, collected, n=NEAR, cutoff=0.5)


def _show(case_id: str) -> str:
    return limits.cut(case_id, SHOWN_BYTES)


@dataclass(frozen=True, slots=True)
class Repetition:
    """The number of turns of each case, and whether the first failure ends the repetition."""

    times: int = 1
    until_fail: bool = False

    @classmethod
    def of(cls, plan: RunPlan) -> "Repetition":
        return cls(plan.repeat, plan.until_fail)

    @property
    def is_plain(self) -> bool:
        """Whether each case has one turn; bad ones can be retried."""
        return self.times == 1 and not self.until_fail

    def goes_on_at(self, number: int, cases: int) -> bool:
        return self.times == FOR_EVER or number < self.times * cases

    def excess(self, cases: int) -> str:
        """Return a sentence if a report cannot hold the results. With `until_fail` only the newest are kept."""
        if self.until_fail or self.times * cases <= limits.CASES:
            return ""
        if self.times == 1:
            return too_many(cases)
        return (
            f"{cases} cases x {self.times} repetitions exceed the limit of {limits.CASES} in a report. "
            f"Repeat them at most {limits.CASES // cases} times, or select fewer cases"
        )


def too_many(cases: int) -> str:
    return (
        f"{cases} cases exceed the limit of {limits.CASES} in a report. Select fewer with `select` or `files`, "
        "or split them into several runs"
    )


def turn_id(case_id: str, repetition: int) -> str:
    return f"{case_id}#{repetition + 1}" if repetition else case_id
