"""The Python stacks that faulthandler writes: tidied, cut, and asked where a rank is. Pure."""

import re
from dataclasses import dataclass

HEAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*:$")
FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$')
OWN_THREAD = "disttest_runner/diagnosis/responder.py"
MAIN_THREAD = "disttest_runner/rank/rank.py"
MACHINERY = ("/_pytest/", "/pluggy/")
LEAST_FRAMES = 8  # of the main thread, where pytest itself hangs

# Where a rank that waits for others is found: the innermost Python frame lies in one of these.
WAITING_FILES = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/rpc/api.py",
    "torch/distributed/rpc/internal.py",
    "torch/distributed/elastic/utils/store.py",
)
OWN_WAITING_FILES = (
    "disttest_runner/process_group/generation.py",
    "disttest_runner/process_group/generation.py",
)  # a barrier or a store of ours


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: str
    function: str


@dataclass(frozen=True, slots=True)
class StackPlace:
    """Where the main thread of a rank is; empty where that is not known."""

    waits_in: str = ""  # the function of torch.distributed that it waits in
    at: str = ""  # `wait_for_ever (test_it.py:40)`: the innermost frame that is not torch's


def threads(text: str) -> list[list[str]]:
    """The lines of each thread, its head first; the main thread comes first, the runner's own is left out."""
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
    """Main thread first, without pytest's and the runner's own frames; what is no stack stays as it is."""
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


def cut(text: str, limit_bytes: int) -> str:
    raw = text.encode(errors="replace")
    return raw.decode() if len(raw) <= limit_bytes else raw[: limit_bytes - 3].decode(errors="ignore") + "…"


def place(text: str) -> StackPlace:
    """From the stacks of a rank, untidied."""
    found = threads(text)
    frames = [_frame(line) for line in found[0][1:]] if found else []
    known = [frame for frame in frames if frame is not None]
    if not known:
        return StackPlace()
    waits = _is_in(known[0], (*WAITING_FILES, *OWN_WAITING_FILES))
    function = ""
    if waits:  # the function that was called from outside, not the one within it that waits
        inner = [frame for frame in _leading(known) if not frame.function.startswith(("_", "wrapper"))]
        function = (inner[-1] if inner else known[0]).function
    own = next((frame for frame in known if "/torch/" not in frame.file), known[0])
    return StackPlace(function, f"{own.function} ({own.file.rpartition('/')[2]}:{own.line})")


def _leading(frames: list[Frame]) -> list[Frame]:
    """The innermost frames up to the first that neither waits nor wraps."""
    files = (*WAITING_FILES, *OWN_WAITING_FILES)
    for at, frame in enumerate(frames):
        if not _is_in(frame, files) and frame.function != "wrapper":
            return [one for one in frames[:at] if _is_in(one, files)]
    return [one for one in frames if _is_in(one, files)]


def _is_in(frame: Frame, files: tuple[str, ...]) -> bool:
    return frame.file.endswith(files)


def _frame(line: str) -> Frame | None:
    found = FRAME.match(line)
    return Frame(found["file"], found["line"], found["function"]) if found else None
