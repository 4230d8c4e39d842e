"""What a comparison says: of A, the earlier report, and of B."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report

CaseKey = tuple[str, str]  # suite, id
ABSENT = "absent"  # in place of an outcome: the report does not have the case
UNKNOWN = "unknown"  # the same of a report from which cases may have been cut
BROKEN_OFF = frozenset({Verdict.INFRA_FAILED, Verdict.CANCELLED, Verdict.TIMED_OUT, Verdict.ERRORED})
FLAKY, QUARANTINED = "flaky", "quarantined"  # of what passed, and of what ended badly


class ChangeKind(StrEnum):
    """What became of a case; of one that is as it was nothing is said."""

    NEWLY_FAILING = "newlyFailing"  # it ends badly in B and did not in A, whatever it did there
    STILL_FAILING = "stillFailing"
    NEWLY_PASSING = "newlyPassing"  # it ended badly in A
    NEWLY_FLAKY = "newlyFlaky"
    NO_LONGER_FLAKY = "noLongerFlaky"  # it passes at the first try
    IN_QUARANTINE = "inQuarantine"  # it ends badly in B, which is excused there and was not in A
    NO_LONGER_RUN = "noLongerRun"  # it ran in A, and B did not reach it
    NEWLY_SKIPPED = "newlySkipped"  # it ran in A
    NOW_RUN = "nowRun"  # it is good in B, and was skipped or not reached in A
    ONLY_IN_A = "onlyInA"
    ONLY_IN_B = "onlyInB"


class Trend(StrEnum):
    """Of a number that may only be noise."""

    BETTER = "better"
    SAME = "same"  # within the noise
    WORSE = "worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """`message`, `ranks` and `nodes` are those of the report in which it ended worse."""

    suite: str
    case: str
    before: str
    after: str
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of what the runs were made with."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What befell all cases of a suite alike: `ratio` is how many times longer the median one took."""

    suite: str
    cases: int
    ratio: float
    before_seconds: float  # of all cases together
    after_seconds: float
    trend: Trend


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationChange:
    """A case that took longer or shorter than noise explains.

    `expected_seconds` is what it would have taken in B if it had changed as its suite did; with earlier reports at
    hand, and these further off, as it usually does.
    """

    suite: str
    case: str
    before_seconds: float
    expected_seconds: float
    after_seconds: float

    @property
    def ratio(self) -> float:
        return self.after_seconds / self.expected_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Of cases that were good in both. `least_ratio` is the smallest slowdown that any of them would be told for."""

    compared: int = 0
    least_ratio: float = 0.0
    drifts: tuple[Drift, ...] = ()
    slower: tuple[DurationChange, ...] = ()  # the worst first
    faster: tuple[DurationChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A bus bandwidth in bytes per second. `band` is the part of it that noise explains."""

    collective: str
    dtype: str
    size_bytes: int
    before: float
    after: float
    band: float
    trend: Trend
    usual: float | None = None  # median of the earlier reports and A, if there are enough
    threshold: int | None = None  # of B

    @property
    def change(self) -> float:
        """0.1 for a tenth more."""
        return self.after / self.before - 1

    @property
    def is_below(self) -> bool:
        return self.threshold is not None and self.after < self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two reports."""

    report: Report
    cases: Mapping[CaseKey, CaseResult]

    @property
    def is_broken_off(self) -> bool:
        """It did not come to its end: what it does not have may only not have been reached."""
        return self.report.verdict in BROKEN_OFF

    @property
    def is_cut(self) -> bool:
        """What it does not have may have been there."""
        return bool(self.report.trimmed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`warnings` are sentences on what cannot be compared, or would mislead."""

    a: Report
    b: Report
    changes: Mapping[ChangeKind, tuple[CaseChange, ...]]
    common: int  # cases that both have
    unknown: int = 0  # cases that one of them does not have, perhaps because they were cut
    warnings: tuple[str, ...] = ()
    environment: tuple[Difference, ...] = ()
    paces: Paces = field(default_factory=Paces)
    speeds: tuple[Speed, ...] = ()
    earlier: int = 0  # further reports that the noise was taken from

    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse, each in a few words; empty if nothing did."""
        counted = (
            (len(self.changes[ChangeKind.NEWLY_FAILING]), "case", "newly failing"),
            (len(self.changes[ChangeKind.NO_LONGER_RUN]), "case", "no longer run"),
            (sum(one.trend is Trend.WORSE for one in self.paces.drifts), "suite", "slower as a whole"),
            (len(self.paces.slower), "case", "slower"),
            (sum(one.trend is Trend.WORSE for one in self.speeds), "bandwidth", "lower"),
        )
        found = [f"{count} {what}{'s' if count > 1 else ''} {how}" for count, what, how in counted if count]
        if self.a.verdict is Verdict.PASSED and self.b.verdict is not Verdict.PASSED:
            found.insert(0, f"{self.b.verdict} after {self.a.verdict}")
        return tuple(found)


def word(one: CaseResult) -> str:
    """How it ended, as people are told."""
    if one.is_excused:
        return QUARANTINED
    return FLAKY if one.is_flaky else one.outcome.value


GOOD = frozenset({Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED})
