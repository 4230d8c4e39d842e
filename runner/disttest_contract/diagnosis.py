"""What a report says of a case that did not end. Readers ignore what they do not know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract import limits, ranks


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
            states={ranks.read_one(rank): str(text) for rank, text in data.get("states", {}).items()},
            native={ranks.read_one(rank): str(text) for rank, text in data.get("native", {}).items()},
            ras=str(data.get("ras", "")),
            artifacts=str(data.get("artifacts", "")),
        )
