"""The report of one attempt: the results of all suites and the times of its steps. Readers ignore unknown keys."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results import trimming
from disttest_contract.results.case_result import CaseResult, Earlier, RankEnding, RankGroup, judge_cases
from disttest_contract.results.network_transport import UNKNOWN, GangTransport
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.thresholds import Threshold
from disttest_contract.text import json_values
from disttest_contract.text.json_values import JsonRecord, Message, Seconds3, camel_case, fields_to_json

SCHEMA = 2
MAX_LEFT_OUT = 10_000_000  # cases of one suite
# The fields that are in sections of the JSON. A key of one level is unknown on another.
SECTIONS = {
    "run": ("namespace", "name", "uid", "attempt", "series"),
    "world": ("backend", "nodes", "ranks_per_node", "node_names"),
    "times": ("started", "joined", "first_case", "last_case", "finished"),
}
__all__ = [
    "SCHEMA",
    "CaseResult",
    "Earlier",
    "InvalidReportError",
    "LeftOut",
    "OtherSchemaError",
    "RankEnding",
    "RankGroup",
    "Report",
    "SuiteResult",
    "judge_cases",
    "judge_suites",
]


class InvalidReportError(ValueError):
    """The text is not a report with a supported schema."""

    def __init__(self, sentence: str) -> None:
        super().__init__(limits.cut(sentence, limits.REPORT_PROBLEM_BYTES))


class OtherSchemaError(InvalidReportError):
    """Another version of DistTest wrote the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """The cases that were omitted because of the size limit, counted, so that counts and verdict do not change.

    `excused` counts the bad ones of `by_outcome` that are in quarantine; `flaky` is a part of the passed ones.
    """

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
            raise ValueError(f"the omitted cases in quarantine, {excused}, exceed the omitted cases: {by_outcome}")
        if flaky > by_outcome.get(Outcome.PASSED, 0):
            raise ValueError(f"{flaky} flaky cases were omitted, but fewer passed cases")
        return cls(by_outcome=by_outcome, excused=excused, flaky=flaky)


NOTHING = LeftOut()


def _counts(data: Mapping[str, Any]) -> dict[Outcome, int]:
    return {Outcome(key): number for key, value in data.items() if (number := _count(value))}


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_LEFT_OUT:
        raise ValueError(f"{value!r:.40} is not a number of cases")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult(JsonRecord):
    name: str
    verdict: Verdict
    reason: Reason
    message: Message = ""
    seconds: Seconds3
    cases: tuple[CaseResult, ...]
    left_out: LeftOut = NOTHING  # cases that were omitted because of the size limit

    @property
    def counts(self) -> Counts:
        """Including the cases left out."""
        here = Counts.of(
            (case.outcome for case in self.cases),
            flaky=sum(case.is_flaky for case in self.cases),
            quarantined=sum(case.is_excused for case in self.cases),
        )
        return Counts.sum([here, self.left_out.counts])

    @property
    def excused(self) -> Mapping[Outcome, int]:
        """The number of cases in quarantine by bad outcome."""
        here = Counter(case.outcome for case in self.cases if case.is_excused)
        return here + Counter(self.left_out.excused)

    def to_json(self) -> dict[str, Any]:
        data = fields_to_json(self) | {"counts": self.counts.to_json()}
        return {key: value for key, value in data.items() if value or key != "leftOut"}


def judge_suites(suites: Iterable[SuiteResult]) -> tuple[Verdict, Reason]:
    """Return the verdict of all cases, those left out included."""
    seen = tuple(suites)
    return judge(Counts.sum(suite.counts for suite in seen), sum((Counter(suite.excused) for suite in seen), Counter()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(JsonRecord):
    """Times are seconds since the epoch, by the leader's clock. `node_names[i]` is the node of node index i."""

    namespace: str
    name: str
    uid: str
    attempt: int
    backend: str
    nodes: int
    ranks_per_node: int
    node_names: tuple[str, ...]
    versions: Mapping[str, str] = field(default_factory=dict)  # torch, python, nccl … as far as known
    settings: Mapping[str, str] = field(default_factory=dict)  # what is not as DistTest or the image sets it
    verdict: Verdict
    reason: Reason
    message: Message = ""
    started: float  # the leader's agent started
    joined: float | None = None  # all agents had joined
    first_case: float | None = None
    last_case: float | None = None  # the last case had ended
    finished: float
    generations: int
    suites: tuple[SuiteResult, ...]
    preflight: tuple[NodeFacts, ...] = ()  # of the nodes that joined
    at_fault: tuple[int, ...] = ()  # node indexes that ended the attempt, if known
    series: str = ""
    thresholds: tuple[Threshold, ...] = ()  # for the measured bandwidths
    transport: GangTransport = UNKNOWN  # the network that the ranks used
    trimmed: str = ""  # description of what was left out because of its size; empty for a complete report

    @property
    def counts(self) -> Counts:
        return Counts.sum(suite.counts for suite in self.suites)

    @property
    def failures(self) -> list[tuple[str, CaseResult]]:
        """(suite, case) of every bad case outside the quarantine, in order."""
        return [(suite.name, case) for suite in self.suites for case in suite.cases if case.is_red]

    @property
    def interrupted(self) -> list[tuple[str, CaseResult]]:
        """(suite, case) of the case that was running when the run ended, if any."""
        return [(suite.name, case) for suite in self.suites for case in suite.cases if case.is_interrupted]

    @property
    def excused(self) -> list[tuple[str, CaseResult]]:
        """(suite, case) of every bad case in quarantine, in order."""
        return [(suite.name, case) for suite in self.suites for case in suite.cases if case.is_excused]

    def to_json(self) -> dict[str, Any]:
        data = fields_to_json(self)
        sections = {section: {key: data.pop(key) for key in map(camel_case, SECTIONS[section])} for section in SECTIONS}
        data = {"schema": SCHEMA, **sections, "counts": self.counts.to_json(), **data}
        return {key: value for key, value in data.items() if value or key not in ("settings", "transport", "trimmed")}

    def dumps(self) -> bytes:
        return trimming.dumps(self.to_json())

    @classmethod
    def loads(cls, raw: bytes) -> Self:
        """Parse what `dumps` writes. Raises InvalidReportError for anything else; counts are taken from the cases.

        Only a report that is marked as trimmed may count cases that are not in it.
        """
        if problem := trimming.excess_of_text(raw):
            raise InvalidReportError(f"the report {problem}")
        try:
            data = json_values.loads(raw)
            if data["schema"] != SCHEMA:
                problem = f"the report has schema {data['schema']!r:.40}, but this version of DistTest reads {SCHEMA}"
                raise (OtherSchemaError if "suites" in data else InvalidReportError)(problem)
            if problem := trimming.excess_of_cases(data):
                raise InvalidReportError(f"the report {problem}")
            report = cls.from_json(_without_sections(data))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, InvalidReportError):
                raise
            raise InvalidReportError(f"the report cannot be read: {type(error).__name__}: {error}") from error
        if not report.trimmed and any(suite.left_out.counts.total for suite in report.suites):
            raise InvalidReportError("the report counts cases that it does not contain, but is not marked as trimmed")
        return report


def _without_sections(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields on one level. Others cannot take their place: sizes were checked where the fields belong."""
    places = {camel_case(name): section for section, names in SECTIONS.items() for name in names}
    inner = {key: data[section][key] for key, section in places.items() if key in data[section]}
    return {key: value for key, value in data.items() if key not in places} | inner
