"""Cases left out of a report because of its size: their outcomes are counted, so counts and verdict do not change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract.outcomes import BAD, Counts, Outcome

MAX_CASES = 10_000_000  # of one suite
BAD_WORDS = frozenset(outcome.value for outcome in BAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """`excused` counts the bad ones of `by_outcome` that are in quarantine; `flaky` is a part of the passed ones."""

    by_outcome: Mapping[Outcome, int] = field(default_factory=dict)
    excused: Mapping[Outcome, int] = field(default_factory=dict)
    flaky: int = 0

    @property
    def counts(self) -> Counts:
        return Counts(by_outcome=self.by_outcome, flaky=self.flaky, quarantined=sum(self.excused.values()))

    def to_json(self) -> dict[str, Any]:
        data = {
            "counts": {outcome.value: count for outcome, count in self.by_outcome.items() if count},
            "quarantined": {outcome.value: count for outcome, count in self.excused.items() if count},
            "flaky": self.flaky,
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises ValueError for impossible counts: counts of cases left out must never reduce the visible ones."""
        by_outcome, excused = _counts(data.get("counts", {})), _counts(data.get("quarantined", {}))
        flaky = _count(data.get("flaky", 0))
        if any(outcome not in BAD or count > by_outcome.get(outcome, 0) for outcome, count in excused.items()):
            raise ValueError(f"cases were left out that are in quarantine, {excused}, but ended badly: {by_outcome}")
        if flaky > by_outcome.get(Outcome.PASSED, 0):
            raise ValueError(f"{flaky} flaky cases were left out, but fewer that passed")
        return cls(by_outcome=by_outcome, excused=excused, flaky=flaky)


NOTHING = LeftOut()


def is_bad(case: Mapping[str, Any]) -> bool:
    return case["outcome"] in BAD_WORDS


def is_interrupted(case: Mapping[str, Any]) -> bool:
    return case["outcome"] == Outcome.NOT_RUN and "at" in case


def keep(suite: dict[str, Any], kept: Sequence[Mapping[str, Any]]) -> None:
    """Keep only these of the suite's case objects and count the others; works on JSON, in place."""
    kept_ids, counted = {id(case) for case in kept}, suite.setdefault("leftOut", {})
    for case in suite["cases"]:
        if id(case) not in kept_ids:
            _count_case(counted, case)
    suite["cases"] = list(kept)
    if not counted:
        del suite["leftOut"]


def _count_case(counted: dict[str, Any], case: Mapping[str, Any]) -> None:
    outcome = case["outcome"]
    keys = ("counts", "quarantined") if is_bad(case) and case.get("quarantined") is True else ("counts",)
    for key in keys:
        numbers = counted.setdefault(key, {})
        numbers[outcome] = numbers.get(outcome, 0) + 1
    if outcome == Outcome.PASSED and any(map(is_bad, case.get("earlier", ()))):
        counted["flaky"] = counted.get("flaky", 0) + 1


def _counts(data: Mapping[str, Any]) -> dict[Outcome, int]:
    return {Outcome(key): number for key, value in data.items() if (number := _count(value))}


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_CASES:
        raise ValueError(f"{value!r:.40} is no number of cases")
    return value
