"""The termination message of an agent: the newest summary, always complete, so that even SIGKILL leaves evidence."""

import json
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Reason, Verdict
from disttest_contract.text import json_values
from disttest_contract.text.json_values import Count, JsonRecord, fields_to_json

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(JsonRecord):
    """The last state of one agent. Only the leader (node index 0) has counts and cases.

    `step` is one of starting, joining, collecting, running, finished. `report_sha256` is set once the report is logged.
    """

    uid: str = ""  # of the DistTest; empty if the agent could not even read its plan
    attempt: Count
    node_index: Count
    step: str
    verdict: Verdict | None = None
    reason: Reason | None = None
    message: str = ""
    current: str = ""  # the case in flight
    first_failure: str = ""  # id, outcome and message of it, cut
    counts: Counts = field(default_factory=Counts)
    cases_total: Count = 0  # of the suites collected so far
    report_sha256: str = ""

    def to_bytes(self) -> bytes:
        """Serialize to exactly TERMINATION_MESSAGE_BYTES, padded with spaces: one write replaces an older message."""
        for text_bytes in (1024, 256, 64, 0):
            raw = json.dumps(self._to_json(text_bytes), separators=(",", ":"), ensure_ascii=True).encode()
            if len(raw) <= limits.TERMINATION_MESSAGE_BYTES:
                break
        return raw.ljust(limits.TERMINATION_MESSAGE_BYTES)

    def _to_json(self, text_bytes: int) -> dict[str, Any]:
        data = {"schema": SCHEMA, **fields_to_json(self)}
        data |= {key: limits.cut(data[key], text_bytes) for key in ("message", "current", "firstFailure")}
        data["counts"] = self.counts.to_json() if self.counts.total else None
        data["casesTotal"] = self.cases_total or None
        return {key: value for key, value in data.items() if value not in ("", None)}

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the message in a pod's status; return None if it is invalid."""
        try:
            data = json_values.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            return None
        try:
            return cls.from_json(data)
        except (KeyError, ValueError, TypeError, AttributeError):
            return None
