"""The progress of a run: lines in the leader's log, each of them a complete snapshot.

DISTTEST-PROGRESS <seal> <JSON>

The seal is a hash of the attempt's nonce: code under test can read these lines, and the nonce, which authenticates the
report, must stay secret.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome
from disttest_contract.text import numbers

MARK = "DISTTEST-PROGRESS"
FAILURES = 5  # the newest
NODES = 4  # of a failure
TEXT_BYTES = (256, 64, 0)  # of each text: the first with which the line is short enough
STEP_CHARACTERS = 16
SEAL_CHARACTERS = 16
TEXTS_OF_FAILURE = ("suite", "case", "ranks", "message")


def seal(nonce: str) -> str:
    return hashlib.sha256(f"progress of {nonce}".encode()).hexdigest()[:SEAL_CHARACTERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that has ended badly so far; a retry can still pass. `ranks` is a list such as `0-3,7`."""

    suite: str
    case: str
    outcome: Outcome
    ranks: str = ""
    nodes: tuple[str, ...] = ()
    message: str = ""

    def to_json(self, text_bytes: int) -> dict[str, Any]:
        texts = {name: limits.cut(getattr(self, name), text_bytes) for name in TEXTS_OF_FAILURE}
        nodes = [limits.cut(node, text_bytes) for node in self.nodes[:NODES]]
        data = {**texts, "outcome": self.outcome.value, "nodes": nodes}
        return {name: data[name] for name in self.__slots__ if data[name]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        texts: dict[str, Any] = {name: str(data.get(name, "")) for name in TEXTS_OF_FAILURE}
        nodes = tuple(str(node) for node in data.get("nodes", ())[:NODES])
        return cls(outcome=Outcome(data["outcome"]), nodes=nodes, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """`step` is one of the steps of the termination message. Case totals cover the suites collected so far."""

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
        """Serialize; texts are cut so that the line is never longer than `limits.FRAME_LINE_BYTES`."""
        for text_bytes in TEXT_BYTES:
            raw = json.dumps(self._to_json(text_bytes), separators=(",", ":"), ensure_ascii=True)
            line = f"{MARK} {seal(nonce)} {raw}"
            if len(line) <= limits.FRAME_LINE_BYTES:
                break
        return line

    def _to_json(self, text_bytes: int) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields |= {name: limits.cut(fields[name], text_bytes) for name in ("suite", "current_case")}
        fields["counts"] = {key: count for key, count in self.counts.to_json().items() if count}
        fields["failures"] = [failure.to_json(text_bytes) for failure in self.failures[-FAILURES:]]
        data = {numbers.camel_case(name): value for name, value in fields.items()}
        return {key: value for key, value in data.items() if value}

    @classmethod
    def read(cls, line: str, nonce: str) -> Self | None:
        """Parse a line; return None if it belongs to another attempt or is invalid."""
        head = f"{MARK} {seal(nonce)} "
        if not line.startswith(head) or len(line) > limits.FRAME_LINE_BYTES:
            return None
        try:
            return cls._from_json(json.loads(line.removeprefix(head)))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return None

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Self:
        totals = {
            name: max(0, int(data.get(numbers.camel_case(name), 0)))
            for name in ("nodes_joined", "cases_done", "cases_total", "suites_done")
        }
        return cls(
            step=str(data["step"])[:STEP_CHARACTERS],
            suite=str(data.get("suite", "")),
            current_case=str(data.get("currentCase", "")),
            counts=Counts.from_json(data.get("counts", {})),
            failures=tuple(Failure.from_json(one) for one in data.get("failures", ())[-FAILURES:]),
            **totals,
        )
