"""The result of one case over all ranks: its last try, and the earlier ones."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Counts, Outcome, Reason, Verdict, judge
from disttest_contract.results.measurement import Measurement
from disttest_contract.text import escaping, formatting, numbers

INTERRUPTED = "interrupted"
HEADING_BYTES = 512  # of a case's id


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Observations of ranks that waited for each other. `artifacts` is the folder of the full data, if it was kept."""

    summary: str = ""  # one sentence: which ranks wait in which collective, and which never joined it
    states: Mapping[int, str] = field(default_factory=dict)  # rank -> what it was doing
    native: Mapping[int, str] = field(default_factory=dict)  # rank -> stacks with C frames
    ras: str = ""  # output of NCCL's RAS service
    artifacts: str = ""

    def to_json(self) -> dict[str, Any]:
        data = {
            "summary": limits.cut(self.summary, limits.MESSAGE_BYTES),
            "states": _texts_to_json(self.states),
            "native": _texts_to_json(self.native),
            "ras": self.ras,
            "artifacts": self.artifacts,
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            **{name: str(data.get(name, "")) for name in ("summary", "ras", "artifacts")},
            states=_read_texts(data, "states"),
            native=_read_texts(data, "native"),
        )


def _texts_to_json(by_rank: Mapping[int, str]) -> dict[str, str]:
    return {str(rank): text for rank, text in by_rank.items()}


def _read_texts(data: Mapping[str, Any], key: str) -> dict[int, str]:
    return {formatting.read_rank(rank): str(text) for rank, text in data.get(key, {}).items()}


def heading(suite: str, case_id: str) -> str:
    """Return the line above the output of a rank in an agent's log."""
    return f"==> {suite}: {escaping.line(limits.cut(case_id, HEADING_BYTES))} <=="


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A try before the last one."""

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
    """How a case ended for one rank: an outcome, or one that only a single rank can have."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    CRASHED = "crashed"  # its process ended
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    UNFINISHED = "unfinished"  # still running when the ranks were stopped
    IDLE = "idle"  # it takes no part in this case


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks with the same ending and message."""

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
    """One case over all ranks. `ranks` and `nodes` are those at fault; empty if all agree on a good outcome.

    `by_rank` is set if ranks ended differently or badly: each rank is in one group at most, and without room for all
    groups the last ones are missing.
    """

    id: str
    outcome: Outcome
    seconds: float
    at: float | None = None  # seconds from the start of the attempt to the start of the last try
    message: str = ""
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    by_rank: tuple[RankGroup, ...] = ()
    signal: str = ""  # SIGSEGV …, if one killed a rank
    exit_code: int | None = None  # if a rank exited
    stacks: Mapping[int, str] = field(default_factory=dict)  # rank -> Python stacks, of a hang
    logs: Mapping[int, str] = field(default_factory=dict)  # rank -> log records and warnings, of one that failed
    diagnosis: Diagnosis | None = None  # of a case in which ranks waited for each other
    earlier: tuple[Earlier, ...] = ()  # tries before this one, oldest first
    measurements: tuple[Measurement, ...] = ()
    quarantined: bool = False  # it is on the list of known failures, whatever its outcome

    @property
    def is_flaky(self) -> bool:
        """Whether it passed after a bad try."""
        return self.outcome is Outcome.PASSED and any(one.outcome in BAD for one in self.earlier)

    @property
    def is_red(self) -> bool:
        """Whether it ended badly and is not in quarantine."""
        return self.outcome in BAD and not self.quarantined

    @property
    def is_excused(self) -> bool:
        return self.outcome in BAD and self.quarantined

    @property
    def is_interrupted(self) -> bool:
        """Whether the run ended while it was running: by its deadline or a signal, for example."""
        return self.outcome is Outcome.NOT_RUN and self.at is not None

    @property
    def ending(self) -> str:
        """The outcome as users read it."""
        return INTERRUPTED if self.is_interrupted else self.outcome.value

    def to_json(self) -> dict[str, Any]:
        """Include only what is set: thousands of passed cases are id, outcome and seconds."""
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
            "stacks": _texts_to_json(self.stacks),
            "logs": _texts_to_json(self.logs),
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
            stacks=_read_texts(data, "stacks"),
            logs=_read_texts(data, "logs"),
            diagnosis=Diagnosis.from_json(data["diagnosis"]) if data.get("diagnosis") else None,
            earlier=tuple(Earlier.from_json(one) for one in data.get("earlier", ())),
            measurements=tuple(Measurement.from_json(one) for one in data.get("measurements", ())),
            quarantined=data.get("quarantined") is True,
        )


def judge_cases(cases: Iterable[CaseResult]) -> tuple[Verdict, Reason]:
    """Return the verdict of cases that have run; bad ones in quarantine do not count."""
    seen = tuple(cases)
    return judge(Counts.of(case.outcome for case in seen), Counter(case.outcome for case in seen if case.is_excused))
