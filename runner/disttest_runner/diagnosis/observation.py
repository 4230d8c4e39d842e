"""What one rank was seen to do when its case did not end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_runner.diagnosis.flight_recorder import Trace
from disttest_runner.diagnosis.stacks import StackPlace

STACK_BYTES = 8 << 10
TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RankObservation:
    """`trace` is None when the rank did not answer or its torch keeps no flight recorder."""

    stack: str = ""  # of a rank that had not finished
    place: StackPlace = field(default_factory=StackPlace)
    silent: str = ""  # why it did not answer, by what the kernel says of it
    is_excused: bool = False  # its silence proves nothing: it got no processor, or has lost the thread that answers
    trace: Trace | None = None

    @property
    def waits_in(self) -> str:
        """What it waits in, by its stack or by a send or receive that has not ended, besides collectives."""
        if self.place.waits_in:
            return self.place.waits_in
        groups = self.trace.groups if self.trace else ()
        return next((group.pending_p2p.op for group in groups if group.pending_p2p), "")

    def to_json(self) -> dict[str, Any]:
        return {
            "stack": self.stack,
            "place": [self.place.waits_in, self.place.at],
            "silent": self.silent,
            "excused": self.is_excused,
            "trace": self.trace.to_json() if self.trace else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        trace = data["trace"]
        waits_in, at = (str(word)[:TEXT_CHARACTERS] for word in data["place"])
        return cls(
            stack=str(data["stack"]),
            place=StackPlace(waits_in, at),
            silent=str(data["silent"])[:TEXT_CHARACTERS],
            is_excused=bool(data["excused"]),
            trace=None if trace is None else Trace.from_json(trace),
        )
