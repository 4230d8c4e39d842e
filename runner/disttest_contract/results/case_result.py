"""What one case came to over all ranks, at its last try and at those before."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results.measurement import Measurement
from disttest_contract.text import escaping, formatting, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was seen of ranks that waited for each other. `artifacts` is where the whole of it lies, if anywhere."""

    summary: str = ""  # one sentence: who waits in which collective, and who never joined it
    states: Mapping[int, str] = field(default_factory=dict)  # rank -> what it was doing
    native: Mapping[int, str] = field(default_factory=dict)  # rank -> stacks with C frames
    ras: str = ""  # NCCL's own account
    artifacts: str = ""

    def to_json(self) -> dict[str, Any]:
        data = {
            "summary": limits.cut(self.summary, limits.MESSAGE_BYTES),
            "states": {str(rank): text for rank, text in self.states.items()},
            "native": {str(rank): text for rank, text in self.native.items()},
            "ras": self.ras,
            "artifacts": self.artifacts,
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            summary=str(data.get("summary", "")),
            states={formatting.read_rank(rank): str(text) for rank, text in data.get("states", {}).items()},
            native={formatting.read_rank(rank): str(text) for rank, text in data.get("native", {}).items()},
            ras=str(data.get("ras", "")),
            artifacts=str(data.get("artifacts", "")),
        )


INTERRUPTED = "interrupted"
HEADING_BYTES = 512  # of a case's id


def heading(suite: str, case_id: str) -> str:
    """Return the line that an agent's log has above the output of a rank in a case."""
    return f"==> {suite}: {escaping.line(limits.cut(case_id, HEADING_BYTES))} <=="


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
            seconds=numbers.real(data["seconds"]),
            message=limits.cut(str(data.get("message", "")), limits.MESSAGE_BYTES),
            ranks=tuple(numbers.whole(rank) for rank in data.get("ranks", ())),
            nodes=tuple(str(node) for node in data.get("nodes", ())),
        )


class RankEnding(StrEnum):
    """How a case ended for one rank: an outcome, or what only a single rank can come to."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    CRASHED = "crashed"  # its process ended
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    UNFINISHED = "unfinished"  # it had not come to an end when the others were stopped
    IDLE = "idle"  # it has no part in this case


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks for which a case ended alike."""

    ranks: tuple[int, ...]
    ending: RankEnding
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        data = {"ranks": formatting.show_ranks(self.ranks), "ending": self.ending.value}
        return data | ({"message": limits.cut(self.message, limits.MESSAGE_BYTES)} if self.message else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            ranks=formatting.read_ranks(data["ranks"]),
            ending=RankEnding(data["ending"]),
            message=limits.cut(str(data.get("message", "")), limits.MESSAGE_BYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case over all ranks. `ranks`, `nodes`: those to blame, empty when all agree on a good outcome.

    `by_rank` is there where ranks ended differently or badly: each rank in one group at most, and where there was no
    room for all groups the last ones are missing.
    """

    id: str
    outcome: Outcome
    seconds: float
    at: float | None = None  # seconds from the start of the report's attempt to that of its last try
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    by_rank: tuple[RankGroup, ...] = ()
    signal: str = ""  # SIGSEGV …, when a rank was killed by one
    exit_code: int | None = None  # when a rank left by itself
    stacks: Mapping[int, str] = field(default_factory=dict)  # rank -> Python stacks, of a hang
    logs: Mapping[int, str] = field(default_factory=dict)  # rank -> log records and warnings, of one that failed
    diagnosis: Diagnosis | None = None  # of a case in which ranks waited for each other
    earlier: tuple[Earlier, ...] = ()  # tries before this one, oldest first
    measurements: tuple[Measurement, ...] = ()
    quarantined: bool = False  # it is on the list of known failures, however it ended

    @property
    def is_flaky(self) -> bool:
        """It passed, but not at the first try."""
        return self.outcome is Outcome.PASSED and any(one.outcome in BAD for one in self.earlier)

    @property
    def is_red(self) -> bool:
        """It ended badly, and nobody knew that it would."""
        return self.outcome in BAD and not self.quarantined

    @property
    def is_excused(self) -> bool:
        return self.outcome in BAD and self.quarantined

    @property
    def is_interrupted(self) -> bool:
        """It had started, and the run ended before it did: by the run's deadline or by a signal, say."""
        return self.outcome is Outcome.NOT_RUN and self.at is not None

    @property
    def ending(self) -> str:
        """How it ended, in the words that people are shown."""
        return INTERRUPTED if self.is_interrupted else self.outcome.value

    def to_json(self) -> dict[str, Any]:
        """Only what is set: thousands of passed cases are id, outcome, seconds."""
        data: dict[str, Any] = {"id": self.id, "outcome": self.outcome.value, "seconds": round(self.seconds, 4)}
        if self.at is not None:
            data["at"] = round(self.at, 3)
        if self.message:
            data["message"] = limits.cut(self.message, limits.MESSAGE_BYTES)
        optional = {
            "ranks": list(self.ranks),
            "nodes": list(self.nodes),
            "byRank": [group.to_json() for group in self.by_rank],
            "signal": self.signal,
            "stacks": {str(rank): text for rank, text in self.stacks.items()},
            "logs": {str(rank): text for rank, text in self.logs.items()},
            "diagnosis": self.diagnosis.to_json() if self.diagnosis else None,
            "earlier": [one.to_json() for one in self.earlier],
            "measurements": [one.to_json() for one in self.measurements],
            "quarantined": self.quarantined,
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
            seconds=numbers.real(data["seconds"]),
            at=numbers.real(data["at"]) if "at" in data else None,
            message=limits.cut(str(data.get("message", "")), limits.MESSAGE_BYTES),
            ranks=tuple(numbers.whole(rank) for rank in data.get("ranks", ())),
            nodes=tuple(str(node) for node in data.get("nodes", ())),
            by_rank=tuple(RankGroup.from_json(one) for one in data.get("byRank", ())),
            signal=str(data.get("signal", "")),
            exit_code=numbers.whole(data["exitCode"]) if data.get("exitCode") is not None else None,
            stacks={formatting.read_rank(rank): str(text) for rank, text in data.get("stacks", {}).items()},
            logs={formatting.read_rank(rank): str(text) for rank, text in data.get("logs", {}).items()},
            diagnosis=Diagnosis.from_json(data["diagnosis"]) if data.get("diagnosis") else None,
            earlier=tuple(Earlier.from_json(one) for one in data.get("earlier", ())),
            measurements=tuple(Measurement.from_json(one) for one in data.get("measurements", ())),
            quarantined=data.get("quarantined") is True,
        )


def judge_cases(cases: Iterable[CaseResult]) -> tuple[Verdict, Reason]:
    """What cases that had their turn come to; those in quarantine are excused."""
    seen = tuple(cases)
    return judge(Counts.of(case.outcome for case in seen), Counter(case.outcome for case in seen if case.is_excused))
