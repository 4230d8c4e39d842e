"""The result of a comparison of A, the older report, with B."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

CaseKey = tuple[str, str]  # suite, id
ABSENT = "absent"  # instead of an outcome: the report does not have the case
UNKNOWN = "unknown"  # the same, if the report may have lost cases
BROKEN_OFF = frozenset({Verdict.INFRA_FAILED, Verdict.CANCELLED, Verdict.TIMED_OUT, Verdict.ERRORED})
FLAKY, QUARANTINED = "flaky", "quarantined"  # instead of passed, and instead of a bad outcome


class ChangeKind(StrEnum):
    """How a case changed; an unchanged case has no kind."""

    NEWLY_FAILING = "newlyFailing"  # bad in B and not bad in A
    STILL_FAILING = "stillFailing"
    NEWLY_PASSING = "newlyPassing"  # bad in A
    NEWLY_FLAKY = "newlyFlaky"
    NO_LONGER_FLAKY = "noLongerFlaky"  # passes at the first try
    IN_QUARANTINE = "inQuarantine"  # bad in B and excused there, not excused in A
    NO_LONGER_RUN = "noLongerRun"  # ran in A, not reached in B
    NEWLY_SKIPPED = "newlySkipped"  # ran in A
    NOW_RUN = "nowRun"  # good in B, skipped or not reached in A
    ONLY_IN_A = "onlyInA"
    ONLY_IN_B = "onlyInB"


class Trend(StrEnum):
    BETTER = "better"
    SAME = "same"  # within the noise
    WORSE = "worse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """`message`, `ranks` and `nodes` are from the report in which the case ended worse."""

    suite: str
    case: str
    before: str
    after: str
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact about the runs' environments, as text."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A change of all durations of a suite; `ratio` is that of the median case."""

    suite: str
    cases: int
    ratio: float
    before_seconds: float  # of all cases together
    after_seconds: float
    trend: Trend


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationChange:
    """A case whose duration changed more than noise explains.

    `expected_seconds` is its duration in A, or its usual one in the series if that is nearer to B, multiplied by the
    ratio of its suite.
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
class Durations:
    """Durations of cases that were good in both. `least_ratio` is the smallest slowdown that would be reported."""

    compared: int = 0
    least_ratio: float = 0.0
    drifts: tuple[Drift, ...] = ()
    slower: tuple[DurationChange, ...] = ()  # the worst first
    faster: tuple[DurationChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A bus bandwidth in bytes per second. `band` is the relative change that noise explains."""

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
        """Relative: 0.1 is 10 % more."""
        return self.after / self.before - 1

    @property
    def is_below(self) -> bool:
        return self.threshold is not None and self.after < self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    report: Report
    cases: Mapping[CaseKey, CaseResult]

    @property
    def is_broken_off(self) -> bool:
        """Whether the run ended early, so that missing cases may only not have been reached."""
        return self.report.verdict in BROKEN_OFF

    @property
    def is_cut(self) -> bool:
        """Whether the report was cut for its size, so that missing cases may have run."""
        return bool(self.report.trimmed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`warnings` are sentences about data that cannot be compared or could mislead."""

    a: Report
    b: Report
    changes: Mapping[ChangeKind, tuple[CaseChange, ...]]
    common: int  # cases that both have
    unknown: int = 0  # cases that one of them does not have, perhaps because they were cut
    warnings: tuple[str, ...] = ()
    environment: tuple[Difference, ...] = ()
    durations: Durations = field(default_factory=Durations)
    speeds: tuple[Speed, ...] = ()
    earlier: int = 0  # number of further reports that noise was estimated from

    @property
    def worse(self) -> tuple[str, ...]:
        """Short phrases for everything that got worse; empty if nothing did."""
        counted = (
            (len(self.changes[ChangeKind.NEWLY_FAILING]), "case", "newly failing"),
            (len(self.changes[ChangeKind.NO_LONGER_RUN]), "case", "no longer run"),
            (sum(one.trend is Trend.WORSE for one in self.durations.drifts), "suite", "slower as a whole"),
            (len(self.durations.slower), "case", "slower"),
            (sum(one.trend is Trend.WORSE for one in self.speeds), "bandwidth", "lower"),
        )
        found = [f"{formatting.counted(count, what)} {how}" for count, what, how in counted if count]
        if self.a.verdict is Verdict.PASSED and self.b.verdict is not Verdict.PASSED:
            found.insert(0, f"{self.b.verdict} after {self.a.verdict}")
        return tuple(found)


def word(one: CaseResult) -> str:
    """The outcome, or flaky or quarantined."""
    if one.is_excused:
        return QUARANTINED
    return FLAKY if one.is_flaky else one.outcome.value


GOOD = frozenset({Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED})
