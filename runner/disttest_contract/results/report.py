"""The report of one attempt: the results of all suites and the times of its steps. Readers ignore unknown keys."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results import trimming
from disttest_contract.results.case_result import CaseResult, Earlier, RankEnding, RankGroup, judge_cases
from disttest_contract.results.left_out import NOTHING, LeftOut
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.thresholds import Threshold
from disttest_contract.text import numbers

SCHEMA = 1
__all__ = [
    "SCHEMA",
    "CaseResult",
    "Earlier",
    "InvalidReportError",
    "RankEnding",
    "RankGroup",
    "Report",
    "SuiteResult",
    "judge_cases",
    "judge_suites",
]


class InvalidReportError(ValueError):
    """The text is not a report of a schema that this reader knows."""

    def __init__(self, sentence: str) -> None:
        super().__init__(limits.cut(sentence, limits.REPORT_PROBLEM_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    name: str
    verdict: Verdict
    reason: Reason
    message: str = ""
    seconds: float
    cases: tuple[CaseResult, ...] = ()
    left_out: LeftOut = NOTHING  # cases for which there was no room

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
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "message": limits.cut(self.message, limits.MESSAGE_BYTES),
            "seconds": round(self.seconds, 3),
            "counts": self.counts.to_json(),
            "cases": [case.to_json() for case in self.cases],
            **({"leftOut": self.left_out.to_json()} if self.left_out.counts.total else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            name=str(data["name"]),
            verdict=Verdict(data["verdict"]),
            reason=Reason(data["reason"]),
            message=limits.cut(str(data.get("message", "")), limits.MESSAGE_BYTES),
            seconds=numbers.real(data["seconds"]),
            cases=tuple(CaseResult.from_json(case) for case in data["cases"]),
            left_out=LeftOut.from_json(data["leftOut"]) if "leftOut" in data else NOTHING,
        )


def judge_suites(suites: Iterable[SuiteResult]) -> tuple[Verdict, Reason]:
    """Return the verdict of all cases, those left out included."""
    seen = tuple(suites)
    return judge(Counts.sum(suite.counts for suite in seen), sum((Counter(suite.excused) for suite in seen), Counter()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Times are seconds since the epoch, by the leader's clock. `node_names[i]` is the node of node index i."""

    namespace: str
    name: str
    uid: str
    attempt: int
    backend: str
    nodes: int
    ranks_per_node: int
    node_names: tuple[str, ...]
    versions: Mapping[str, str]  # torch, python, nccl … as far as known
    verdict: Verdict
    reason: Reason
    message: str
    started: float  # the leader's agent started
    joined: float | None  # all agents had joined
    first_case: float | None
    last_case: float | None  # the last case had ended
    finished: float
    generations: int
    suites: tuple[SuiteResult, ...]
    preflight: tuple[NodeFacts, ...] = ()  # of the nodes that joined
    at_fault: tuple[int, ...] = ()  # node indexes that ended the attempt, if known
    series: str = ""
    thresholds: tuple[Threshold, ...] = ()  # for the measured bandwidths
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
        return {
            "schema": SCHEMA,
            "run": self._values("namespace", "name", "uid", "attempt", "series"),
            "world": self._values("backend", "nodes", "ranks_per_node") | {"nodeNames": list(self.node_names)},
            "versions": dict(self.versions),
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "message": limits.cut(self.message, limits.MESSAGE_BYTES),
            "times": self._values("started", "joined", "first_case", "last_case", "finished"),
            "generations": self.generations,
            "counts": self.counts.to_json(),
            "suites": [suite.to_json() for suite in self.suites],
            "preflight": [facts.to_json() for facts in self.preflight],
            "atFault": list(self.at_fault),
            "thresholds": [threshold.to_json() for threshold in self.thresholds],
            **({"trimmed": self.trimmed} if self.trimmed else {}),
        }

    def _values(self, *names: str) -> dict[str, Any]:
        return {numbers.camel_case(name): getattr(self, name) for name in names}

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
            data = numbers.loads(raw)
            if data["schema"] != SCHEMA:
                raise InvalidReportError(f"the report is of schema {data['schema']!r}, this reader knows {SCHEMA}")
            if problem := trimming.excess_of_cases(data):
                raise InvalidReportError(f"the report {problem}")
            report = cls._from_json(data)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, InvalidReportError):
                raise
            raise InvalidReportError(f"the report cannot be read: {type(error).__name__}: {error}") from error
        if not report.trimmed and any(suite.left_out.counts.total for suite in report.suites):
            raise InvalidReportError("the report counts cases that are not in it, and does not say that it was cut")
        return report

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Self:
        run, world, times = data["run"], data["world"], data["times"]
        return cls(
            namespace=str(run["namespace"]),
            name=str(run["name"]),
            uid=str(run["uid"]),
            attempt=numbers.whole(run["attempt"]),
            backend=str(world["backend"]),
            nodes=numbers.whole(world["nodes"]),
            ranks_per_node=numbers.whole(world["ranksPerNode"]),
            node_names=tuple(str(name) for name in world["nodeNames"]),
            versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
            verdict=Verdict(data["verdict"]),
            reason=Reason(data["reason"]),
            message=limits.cut(str(data.get("message", "")), limits.MESSAGE_BYTES),
            started=numbers.real(times["started"]),
            joined=numbers.optional_real(times.get("joined")),
            first_case=numbers.optional_real(times.get("firstCase")),
            last_case=numbers.optional_real(times.get("lastCase")),
            finished=numbers.real(times["finished"]),
            generations=numbers.whole(data["generations"]),
            suites=tuple(SuiteResult.from_json(suite) for suite in data["suites"]),
            preflight=tuple(NodeFacts.from_json(facts) for facts in data.get("preflight", ())),
            at_fault=tuple(numbers.whole(index) for index in data.get("atFault", ())),
            series=str(run.get("series", "")),
            thresholds=tuple(Threshold.from_json(one) for one in data.get("thresholds", ())),
            trimmed=str(data.get("trimmed", "")),
        )
