"""The report of one attempt: what every case, suite and step came to. Readers ignore what they do not know."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.diagnosis import Diagnosis
from disttest_contract.measurement import Measurement
from disttest_contract.outcomes import BAD, Counts, Outcome, Reason, Verdict
from disttest_contract.preflight import NodeFacts

SCHEMA = 1


class InvalidReportError(ValueError):
    """The text is not a report of a schema that this reader knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A try of a case that was tried again."""

    outcome: Outcome
    seconds: float
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "seconds": round(self.seconds, 4),
            "message": limits.cut(self.message, limits.MESSAGE_BYTES),
            "ranks": list(self.ranks),
            "nodes": list(self.nodes),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            outcome=Outcome(data["outcome"]),
            seconds=float(data["seconds"]),
            message=str(data.get("message", "")),
            ranks=tuple(int(rank) for rank in data.get("ranks", ())),
            nodes=tuple(str(node) for node in data.get("nodes", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case over all ranks. `ranks`, `nodes`: those to blame, empty when all agree on a good outcome."""

    id: str
    outcome: Outcome
    seconds: float
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    signal: str = ""  # SIGSEGV …, when a rank was killed by one
    exit_code: int | None = None  # when a rank left by itself
    stacks: Mapping[int, str] = field(default_factory=dict)  # rank -> Python stacks, of a hang
    diagnosis: Diagnosis | None = None  # of a case in which ranks waited for each other
    earlier: tuple[Earlier, ...] = ()  # tries before this one, oldest first
    measurements: tuple[Measurement, ...] = ()

    @property
    def is_flaky(self) -> bool:
        """It passed, but not at the first try."""
        return self.outcome is Outcome.PASSED and any(one.outcome in BAD for one in self.earlier)

    def to_json(self) -> dict[str, Any]:
        """Only what is set: thousands of passed cases are id, outcome, seconds."""
        data: dict[str, Any] = {"id": self.id, "outcome": self.outcome.value, "seconds": round(self.seconds, 4)}
        if self.message:
            data["message"] = limits.cut(self.message, limits.MESSAGE_BYTES)
        optional = {
            "ranks": list(self.ranks),
            "nodes": list(self.nodes),
            "signal": self.signal,
            "stacks": {str(rank): text for rank, text in self.stacks.items()},
            "diagnosis": self.diagnosis.to_json() if self.diagnosis else None,
            "earlier": [one.to_json() for one in self.earlier],
            "measurements": [one.to_json() for one in self.measurements],
        }
        data |= {key: value for key, value in optional.items() if value}
        if self.exit_code is not None:
            data["exitCode"] = self.exit_code
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            id=str(data["id"]),
            outcome=Outcome(data["outcome"]),
            seconds=float(data["seconds"]),
            message=str(data.get("message", "")),
            ranks=tuple(int(rank) for rank in data.get("ranks", ())),
            nodes=tuple(str(node) for node in data.get("nodes", ())),
            signal=str(data.get("signal", "")),
            exit_code=data.get("exitCode"),
            stacks={int(rank): str(text) for rank, text in data.get("stacks", {}).items()},
            diagnosis=Diagnosis.from_json(data["diagnosis"]) if data.get("diagnosis") else None,
            earlier=tuple(Earlier.from_json(one) for one in data.get("earlier", ())),
            measurements=tuple(Measurement.from_json(one) for one in data.get("measurements", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    name: str
    verdict: Verdict
    reason: Reason
    message: str = ""
    seconds: float
    cases: tuple[CaseResult, ...] = ()

    @property
    def counts(self) -> Counts:
        return Counts.of((case.outcome for case in self.cases), flaky=sum(case.is_flaky for case in self.cases))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "message": limits.cut(self.message, limits.MESSAGE_BYTES),
            "seconds": round(self.seconds, 3),
            "counts": self.counts.to_json(),
            "cases": [case.to_json() for case in self.cases],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            name=str(data["name"]),
            verdict=Verdict(data["verdict"]),
            reason=Reason(data["reason"]),
            message=str(data.get("message", "")),
            seconds=float(data["seconds"]),
            cases=tuple(CaseResult.from_json(case) for case in data["cases"]),
        )


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
    started: float  # the leader's agent began
    joined: float | None  # all agents were there
    first_case: float | None
    last_case: float | None  # the last case had ended
    finished: float
    generations: int
    suites: tuple[SuiteResult, ...]
    preflight: tuple[NodeFacts, ...] = ()  # of the nodes that joined
    at_fault: tuple[int, ...] = ()  # node indexes that ended the attempt, where the leader can tell

    @property
    def counts(self) -> Counts:
        return Counts.sum(suite.counts for suite in self.suites)

    @property
    def failures(self) -> list[tuple[str, CaseResult]]:
        """(suite, case) of every case that ended badly, in order."""
        return [(suite.name, case) for suite in self.suites for case in suite.cases if case.outcome in BAD]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "run": {"namespace": self.namespace, "name": self.name, "uid": self.uid, "attempt": self.attempt},
            "world": {
                "backend": self.backend,
                "nodes": self.nodes,
                "ranksPerNode": self.ranks_per_node,
                "nodeNames": list(self.node_names),
            },
            "versions": dict(self.versions),
            "verdict": self.verdict.value,
            "reason": self.reason.value,
            "message": limits.cut(self.message, limits.MESSAGE_BYTES),
            "times": {
                "started": self.started,
                "joined": self.joined,
                "firstCase": self.first_case,
                "lastCase": self.last_case,
                "finished": self.finished,
            },
            "generations": self.generations,
            "counts": self.counts.to_json(),
            "suites": [suite.to_json() for suite in self.suites],
            "preflight": [facts.to_json() for facts in self.preflight],
            "atFault": list(self.at_fault),
        }

    def dumps(self) -> bytes:
        """Compact UTF-8."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False).encode(errors="replace")

    @classmethod
    def loads(cls, raw: bytes) -> Self:
        """Read what `dumps` wrote. Raises InvalidReportError for anything else; counts are taken from the cases."""
        if len(raw) > limits.REPORT_BYTES:
            raise InvalidReportError(f"the report has {len(raw)} bytes, more than {limits.REPORT_BYTES}")
        if (values := sum(map(raw.count, (b",", b"[", b"{")))) > limits.REPORT_VALUES:
            raise InvalidReportError(f"the report has {values} commas and brackets, more than {limits.REPORT_VALUES}")
        try:
            data = json.loads(raw)
            if data["schema"] != SCHEMA:
                raise InvalidReportError(f"the report is of schema {data['schema']!r}, this reader knows {SCHEMA}")
            if (cases := sum(len(suite["cases"]) for suite in data["suites"])) > limits.CASES:
                raise InvalidReportError(f"the report has {cases} cases, more than {limits.CASES}: make several runs")
            return cls._from_json(data)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            if isinstance(error, InvalidReportError):
                raise
            raise InvalidReportError(f"the report cannot be read: {type(error).__name__}: {error}") from error

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Self:
        run, world, times = data["run"], data["world"], data["times"]
        return cls(
            namespace=str(run["namespace"]),
            name=str(run["name"]),
            uid=str(run["uid"]),
            attempt=int(run["attempt"]),
            backend=str(world["backend"]),
            nodes=int(world["nodes"]),
            ranks_per_node=int(world["ranksPerNode"]),
            node_names=tuple(str(name) for name in world["nodeNames"]),
            versions={str(key): str(value) for key, value in data.get("versions", {}).items()},
            verdict=Verdict(data["verdict"]),
            reason=Reason(data["reason"]),
            message=str(data.get("message", "")),
            started=float(times["started"]),
            joined=_time(times.get("joined")),
            first_case=_time(times.get("firstCase")),
            last_case=_time(times.get("lastCase")),
            finished=float(times["finished"]),
            generations=int(data["generations"]),
            suites=tuple(SuiteResult.from_json(suite) for suite in data["suites"]),
            preflight=tuple(NodeFacts.from_json(facts) for facts in data.get("preflight", ())),
            at_fault=tuple(int(index) for index in data.get("atFault", ())),
        )


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
