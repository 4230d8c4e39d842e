"""What one rank was observed to do when its case did not end, and its Python stacks, from faulthandler's text. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from disttest_contract.limits import cut
from disttest_runner.diagnosis.flight_recorder import Trace

STACK_BYTES = 8 << 10
TEXT_CHARACTERS = 200
HEAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*:$")
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
OWN_THREAD = "disttest_runner/diagnosis/responder.py"
MAIN_THREAD = "disttest_runner/rank/rank.py"
MACHINERY = ("/_pytest/", "/pluggy/")
LEAST_FRAMES = 8  # of the main thread, where pytest itself hangs

# The innermost Python frame of a rank that waits for others is in one of these.
WAITING_FILES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/rpc/api.py",
    "torch/distributed/rpc/internal.py",
    "torch/distributed/elastic/utils/store.py",
)
GENERATION_FILE = "disttest_runner/process_group/generation.py"  # the runner's barriers and stores


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: str
    function: str


@dataclass(frozen=True, slots=True)
class StackPlace:
    """Where the main thread of a rank is; empty where that is unknown."""

    waits_in: str = ""  # the function of torch.distributed that it waits in
    at: str = ""  # `wait_for_ever (test_it.py:40)`: the innermost frame that is not torch's


@dataclass(frozen=True, slots=True, kw_only=True)
class RankObservation:
    """`trace` is None when the rank did not answer or its torch keeps no flight recorder."""

    stack: str = ""  # of a rank that had not finished
    place: StackPlace = field(default_factory=StackPlace)
    silent: str = ""  # why it did not answer, from the kernel's point of view
    is_excused: bool = False  # not answering proves nothing: it got no CPU time, or the thread that answers is gone
    trace: Trace | None = None

    @property
    def waits_in(self) -> str:
        """The function that it waits in, from its stack, or its pending send or receive; empty if there is none."""
        if self.place.waits_in:
            return self.place.waits_in
        groups = self.trace.groups if self.trace else ()
        return next((group.pending_p2p.op for group in groups if group.pending_p2p), "")

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for others, as far as is known."""
        return bool(self.waits_in) or any(group.pending for group in (self.trace.groups if self.trace else ()))

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


def threads(text: str) -> list[list[str]]:
    """Return the lines of each thread, without the runner's own. The main thread comes first."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if HEAD.match(line):
            found.append([line])
        elif found and line.strip():
            found[-1].append(line)
    found = [lines for lines in found if OWN_THREAD not in lines[-1]]
    found.reverse()  # faulthandler begins with the newest thread
    found.sort(key=lambda lines: not any(MAIN_THREAD in line for line in lines))
    return found


def tidy(text: str, limit_bytes: int) -> str:
    """Put the main thread first, without frames of pytest and the runner; other text stays as it is."""
    found = threads(text)
    if not found:
        return cut(text, limit_bytes)
    found[0] = _without_machinery(found[0])
    return cut("\n\n".join("\n".join(lines) for lines in found), limit_bytes)


def _without_machinery(lines: list[str]) -> list[str]:
    outer = next((at for at, line in enumerate(lines) if any(part in line for part in MACHINERY)), len(lines))
    if outer <= 1:  # it is pytest itself that hangs
        outer = min(len(lines), LEAST_FRAMES + 1)
    dropped = len(lines) - outer
    return [*lines[:outer], f"  … {dropped} frames of pytest and the runner"] if dropped > 1 else lines


def place(text: str) -> StackPlace:
    """Find the place of a rank in its unmodified stacks."""
    found = threads(text)
    frames = [_frame(line) for line in found[0][1:]] if found else []
    known = [frame for frame in frames if frame is not None]
    if not known:
        return StackPlace()
    waits = _is_in(known[0], (*WAITING_FILES, GENERATION_FILE))
    function = ""
    if waits:  # the function that other code called, not the inner one that waits
        inner = [frame for frame in _leading(known) if not frame.function.startswith(("_", "wrapper"))]
        function = (inner[-1] if inner else known[0]).function
    own = next((frame for frame in known if "/torch/" not in frame.file), known[0])
    return StackPlace(function, f"{own.function} ({own.file.rpartition('/')[2]}:{own.line})")


def _leading(frames: list[Frame]) -> list[Frame]:
    """Return the innermost frames up to the first that is neither waiting nor a wrapper."""
    files = (*WAITING_FILES, GENERATION_FILE)
    for at, frame in enumerate(frames):
        if not _is_in(frame, files) and frame.function != "wrapper":
            return [one for one in frames[:at] if _is_in(one, files)]
    return [one for one in frames if _is_in(one, files)]


def _is_in(frame: Frame, files: tuple[str, ...]) -> bool:
    return frame.file.endswith(files)


def _frame(line: str) -> Frame | None:
    found = FRAME.match(line)
    return Frame(found["file"], found["line"], found["function"]) if found else None
