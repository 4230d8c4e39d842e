"""The termination message of an agent: the newest summary, always complete, so that even SIGKILL leaves evidence."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Reason, Verdict
from disttest_contract.text import numbers

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The last state of one agent. Only the leader (node index 0) has counts and cases.

    `step` is one of starting, joining, collecting, running, finished. `report_sha256` is set once the report is logged.
    """

    uid: str  # of the DistTest; empty if the agent could not even read its plan
    attempt: int
    node_index: int
    step: str
    verdict: Verdict | None = None
    reason: Reason | None = None
    message: str = ""
    current: str = ""  # the case in flight
    first_failure: str = ""  # id, outcome and message of it, cut
    counts: Counts = field(default_factory=Counts)
    cases_total: int = 0  # of the suites collected so far
    report_sha256: str = ""

    def to_bytes(self) -> bytes:
        """Serialize to exactly TERMINATION_MESSAGE_BYTES, padded with spaces: one write replaces an older message."""
        for text_bytes in (1024, 256, 64, 0):
            raw = json.dumps(self._to_json(text_bytes), separators=(",", ":"), ensure_ascii=True).encode()
            if len(raw) <= limits.TERMINATION_MESSAGE_BYTES:
                break
        return raw.ljust(limits.TERMINATION_MESSAGE_BYTES)

    def _to_json(self, text_bytes: int) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields |= {name: limits.cut(fields[name], text_bytes) for name in ("message", "current", "first_failure")}
        fields["counts"] = self.counts.to_json() if self.counts.total else None
        fields["cases_total"] = self.cases_total or None
        data = {"schema": SCHEMA, **{numbers.camel_case(name): value for name, value in fields.items()}}
        return {key: value for key, value in data.items() if value not in ("", None)}

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the message in a pod's status; return None if it is invalid."""
        try:
            data = numbers.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            return None
        try:
            return cls._from_json(data)
        except (KeyError, ValueError, TypeError):
            return None

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Self:
        counts = data.get("counts")
        return cls(
            uid=str(data.get("uid", "")),
            attempt=_count(data["attempt"]),
            node_index=_count(data["nodeIndex"]),
            step=str(data["step"]),
            verdict=Verdict(data["verdict"]) if "verdict" in data else None,
            reason=Reason(data["reason"]) if "reason" in data else None,
            message=str(data.get("message", "")),
            current=str(data.get("current", "")),
            first_failure=str(data.get("firstFailure", "")),
            counts=Counts.from_json(counts) if isinstance(counts, dict) else Counts(),
            cases_total=_count(data.get("casesTotal", 0)),
            report_sha256=str(data.get("reportSha256", "")),
        )


def _count(value: object) -> int:
    return max(0, numbers.whole(value))
