"""What a stub pod does, as the annotations of the pod say."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

PREFIX = "stub.devcluster"
END = f"{PREFIX}/end"  # an End; a DistTest sets it with spec.template.metadata.annotations
SECONDS = f"{PREFIX}/seconds"  # how long the container runs
STOP_SECONDS = f"{PREFIX}/stop-seconds"  # how long it takes to end when its pod is deleted
CASES = f"{PREFIX}/cases"  # in the report
SILENT = f"{PREFIX}/silent"  # on a Node, "true": it says nothing more, as one that lost its power
NODE = f"{PREFIX}/node"  # label and taint of stub nodes, value "true"


class End(StrEnum):
    """How the container ends."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"  # its last case fails
    CRASH = "crash"  # killed in mid-case: 137, no report
    MUTE = "mute"  # exit code 0, without a report
    HANG = "hang"  # only when its pod is deleted
    LOSE = "lose"  # it takes its node with it, which falls silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    end: End = End.PASS
    seconds: float = 0.0
    stop_seconds: float = 0.0
    cases: int = 2

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> Self:
        """A word that is not known is an error of the test that wrote it: ValueError."""
        return cls(
            end=End(annotations.get(END, End.PASS)),
            seconds=float(annotations.get(SECONDS, "0")),
            stop_seconds=float(annotations.get(STOP_SECONDS, "0")),
            cases=int(annotations.get(CASES, "2")),
        )
