"""The progress of a run: lines in the leader's log, each of them a complete snapshot.

DISTTEST-PROGRESS <seal> <JSON>

The seal is a hash of the attempt's nonce: code under test can read these lines, and the nonce, which authenticates the
report, must stay secret.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts
from disttest_contract.text.json_values import Count, JsonRecord, KnownOutcome, fields_to_json

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
class Failure(JsonRecord):
    """A case that has ended badly so far; a retry can still pass. `ranks` is a list such as `0-3,7`."""

    suite: str = ""
    case: str = ""
    outcome: KnownOutcome
    ranks: str = ""
    nodes: tuple[str, ...] = ()
    message: str = ""

    def cut_to_json(self, text_bytes: int) -> dict[str, Any]:
        texts = {name: limits.cut(getattr(self, name), text_bytes) for name in TEXTS_OF_FAILURE}
        nodes = [limits.cut(node, text_bytes) for node in self.nodes[:NODES]]
        return {key: value for key, value in (fields_to_json(self) | texts | {"nodes": nodes}).items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(JsonRecord):
    """`step` is one of the steps of the termination message. Case totals cover the suites collected so far."""

    step: str
    nodes_joined: Count = 0
    suite: str = ""
    current_case: str = ""  # in flight
    cases_done: Count = 0
    cases_total: Count = 0
    suites_done: Count = 0
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
        data = fields_to_json(self)
        data |= {key: limits.cut(data[key], text_bytes) for key in ("suite", "currentCase")}
        data["counts"] = {key: count for key, count in self.counts.to_json().items() if count}
        data["failures"] = [failure.cut_to_json(text_bytes) for failure in self.failures[-FAILURES:]]
        return {key: value for key, value in data.items() if value}

    @classmethod
    def read(cls, line: str, nonce: str) -> Self | None:
        """Parse a line; return None if it belongs to another attempt or is invalid."""
        head = f"{MARK} {seal(nonce)} "
        if not line.startswith(head) or len(line) > limits.FRAME_LINE_BYTES:
            return None
        try:
            data = json.loads(line.removeprefix(head))
            bounded = {"step": str(data["step"])[:STEP_CHARACTERS], "failures": data.get("failures", ())[-FAILURES:]}
            return cls.from_json({**data, **bounded})
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return None
