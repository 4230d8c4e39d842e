"""How far a run is: lines in the leader's log, each of which says all there is to know at that moment.

DISTTEST-PROGRESS <seal> <JSON>

The seal is made of the attempt's nonce and does not tell it: these lines can be read while code under test still runs,
and the nonce itself vouches for the report.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome

MARK = "DISTTEST-PROGRESS"
FAILURES = 5  # the newest
NODES = 4  # of a failure
TEXT_BYTES = (256, 64, 0)  # of each text: the longest with which the line is short enough
STEP_CHARACTERS = 16
SEAL_CHARACTERS = 16


def seal(nonce: str) -> str:
    return hashlib.sha256(f"progress of {nonce}".encode()).hexdigest()[:SEAL_CHARACTERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that ended badly so far: it may pass when it is tried again. `ranks` as in `ranks.show`."""

    suite: str
    case: str
    outcome: Outcome
    ranks: str = ""
    nodes: tuple[str, ...] = ()
    message: str = ""

    def to_json(self, text_bytes: int) -> dict[str, Any]:
        data = {
            "suite": limits.cut(self.suite, text_bytes),
            "case": limits.cut(self.case, text_bytes),
            "outcome": self.outcome.value,
            "ranks": limits.cut(self.ranks, text_bytes),
            "nodes": [limits.cut(node, text_bytes) for node in self.nodes[:NODES]],
            "message": limits.cut(self.message, text_bytes),
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            suite=str(data.get("suite", "")),
            case=str(data.get("case", "")),
            outcome=Outcome(data["outcome"]),
            ranks=str(data.get("ranks", "")),
            nodes=tuple(str(node) for node in data.get("nodes", ())[:NODES]),
            message=str(data.get("message", "")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`step` is one of those of the termination message. Cases are known of the suites that have been collected."""

    step: str
    nodes_joined: int = 0
    suite: str = ""
    current_case: str = ""  # in flight
    cases_done: int = 0
    cases_total: int = 0
    suites_done: int = 0
    counts: Counts = field(default_factory=Counts)
    failures: tuple[Failure, ...] = ()  # the newest last

    def to_line(self, nonce: str) -> str:
        """Never longer than a line of the log may be."""
        for text_bytes in TEXT_BYTES:
            raw = json.dumps(self._to_json(text_bytes), separators=(",", ":"), ensure_ascii=True)
            line = f"{MARK} {seal(nonce)} {raw}"
            if len(line) <= limits.FRAME_LINE_BYTES:
                break
        return line

    def _to_json(self, text_bytes: int) -> dict[str, Any]:
        data: dict[str, Any] = {
            "step": self.step,
            "nodesJoined": self.nodes_joined,
            "suite": limits.cut(self.suite, text_bytes),
            "currentCase": limits.cut(self.current_case, text_bytes),
            "casesDone": self.cases_done,
            "casesTotal": self.cases_total,
            "suitesDone": self.suites_done,
            "counts": {key: count for key, count in self.counts.to_json().items() if count},
            "failures": [failure.to_json(text_bytes) for failure in self.failures[-FAILURES:]],
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def read(cls, line: str, nonce: str) -> Self | None:
        """None for a line that is none of this attempt, or that cannot be understood."""
        head = f"{MARK} {seal(nonce)} "
        if not line.startswith(head) or len(line) > limits.FRAME_LINE_BYTES:
            return None
        try:
            return cls._from_json(json.loads(line.removeprefix(head)))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return None

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Self:
        numbers = {
            name: max(0, int(data.get(key, 0)))
            for name, key in (
                ("nodes_joined", "nodesJoined"),
                ("cases_done", "casesDone"),
                ("cases_total", "casesTotal"),
                ("suites_done", "suitesDone"),
            )
        }
        return cls(
            step=str(data["step"])[:STEP_CHARACTERS],
            suite=str(data.get("suite", "")),
            current_case=str(data.get("currentCase", "")),
            counts=Counts.from_json(data.get("counts", {})),
            failures=tuple(Failure.from_json(one) for one in data.get("failures", ())[-FAILURES:]),
            **numbers,
        )
