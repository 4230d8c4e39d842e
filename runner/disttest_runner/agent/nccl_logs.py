"""The logs that NCCL writes for the ranks of this node: a file for each process of a rank, until the ranks end."""

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disttest_contract import limits
from disttest_contract.results.network_transport import TransportFacts
from disttest_runner.diagnosis import nccl_choice

POLL_SECONDS = 1.0
READ_BYTES = 4 << 20  # of one file at once; of more, the middle is skipped
END_BYTES = 64 << 10  # of the end of a file that is longer
DISK_BYTES = 16 << 20  # of one file, which is emptied beyond that
KEPT_BYTES = 8 << 20  # of the end of one file, with the artifacts
KEPT_GENERATIONS = 50
NAME = "NCCL "  # in each message
WARNING = "NCCL WARN"
MOST_WARNINGS = 100  # lines of one rank in one generation that are copied to its output
LAST_LINES = 12  # that are quoted
QUOTES_BYTES = 64 << 10  # of all quotes in the log of the container, which is for the ranks' own output
HEADING = "The end of NCCL's log:"
MORE = "disttest: NCCL logged more warnings, which are not shown"


@dataclass(slots=True)
class RankLog:
    """What was read of the files of one rank."""

    offsets: dict[str, int] = field(default_factory=dict)  # file -> bytes that were read of it
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))  # lines that have not been quoted
    warnings: int = 0


class NcclLogs:
    """`show` is called with a rank and a line for its output, `found` with what ranks use when that changes."""

    def __init__(
        self,
        show: Callable[[int, bytes], None],
        found: Callable[[Mapping[int, TransportFacts]], None],
        *,
        nodes: int,
        is_used: bool,
    ) -> None:
        self._show, self._found, self._nodes, self._is_used = show, found, nodes, is_used
        self._choices: dict[int, nccl_choice.NcclChoice] = {}  # of all generations
        self._root: Path | None = None
        self._folder: Path | None = None  # of this generation
        self._generation = self._kept = 0
        self._ranks: dict[int, RankLog] = {}
        self._quotes_left = QUOTES_BYTES
        self._timer: asyncio.TimerHandle | None = None

    def start(self, generation: int) -> None:
        """Prepare for the ranks of a generation. Without a folder, NCCL writes warnings to the ranks' output."""
        self._generation, self._ranks, self._folder = generation, {}, None
        if not self._is_used:
            return
        with contextlib.suppress(OSError):
            self._root = self._root or Path(tempfile.mkdtemp(prefix="disttest-nccl-"))
            folder = self._root / str(generation)
            folder.mkdir()
            self._folder = folder
            self._poll()

    def pattern(self, rank: int) -> str:
        """Return the value of NCCL_DEBUG_FILE. Processes that a rank starts inherit it, and write separate files."""
        return f"{self._folder}".replace("%", "%%") + f"/{rank}.%p.log" if self._folder else ""

    def _poll(self) -> None:
        self.read()
        self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)

    def read(self) -> None:
        """Read what was added to the files, and show warnings."""
        before = dict(self._choices)
        for rank, path in self._files():
            log = self._ranks.setdefault(rank, RankLog())
            with contextlib.suppress(OSError):  # a later call reads it
                offset = log.offsets.get(path.name, 0)
                text, log.offsets[path.name] = read_lines(path, offset)
                if text:
                    self._note(rank, log, text)
                    _limit_disk(path)
        changed = {rank for rank, choice in self._choices.items() if before.get(rank) != choice}
        if changed:
            self._found({rank: nccl_choice.facts(self._choices[rank], nodes=self._nodes) for rank in changed})

    def _note(self, rank: int, log: RankLog, text: str) -> None:
        lines = [line for line in text.splitlines() if line]
        for line in warnings(lines) if WARNING in text else ():
            log.warnings += 1
            if log.warnings <= MOST_WARNINGS:
                self._show(rank, line.encode())
            elif log.warnings == MOST_WARNINGS + 1:
                self._show(rank, MORE.encode())
        log.last.extend(lines)
        self._choices[rank] = self._choices.get(rank, nccl_choice.NOTHING).merge(nccl_choice.read(text))

    def quote(self, rank: int) -> str:
        """Return the last lines, and show them. Each line is quoted once; warnings are shown already."""
        self.read()
        log = self._ranks.get(rank)
        if log is None or not log.last:
            return ""
        lines = [HEADING, *log.last]
        log.last.clear()
        hidden = [line for line in lines if line not in set(warnings(lines))]
        for line in hidden if len(hidden) > 1 else ():
            self._quotes_left -= len(line)
            if self._quotes_left > 0:
                self._show(rank, line.encode())
        return limits.cut_middle("\n".join(lines), limits.RANK_LOG_BYTES)

    def end(self, *, is_kept: bool) -> dict[str, str]:
        """Remove the files of a generation that has ended; if they are kept, return their texts."""
        if self._timer:
            self._timer.cancel()
        self.read()
        texts: dict[str, str] = {}
        if is_kept and self._kept < KEPT_GENERATIONS:
            for rank, path in self._files():
                process = path.name.split(".")[1]
                name = f"generation-{self._generation}.rank-{rank}.process-{process}.log"
                with contextlib.suppress(OSError):
                    texts[name] = _end_of(path)
            self._kept += bool(texts)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None
        return texts

    def remove(self) -> None:
        if self._root:
            shutil.rmtree(self._root, ignore_errors=True)

    def _files(self) -> Iterator[tuple[int, Path]]:
        """Yield rank and path of each regular file. Opening a pipe that a test creates there would never end."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                rank, dot, _ = path.name.partition(".")
                if rank.isdecimal() and dot and stat.S_ISREG(path.lstat().st_mode):
                    yield int(rank), path


def warnings(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of warnings. Some have several, of which only the first names NCCL."""
    is_warning = False
    for line in lines:
        is_warning = WARNING in line or (is_warning and NAME not in line)
        if is_warning:
            yield line


def read_lines(path: Path, offset: int) -> tuple[str, int]:
    """Return the whole lines after `offset`, and where the next ones begin."""
    size = path.stat().st_size
    if size <= offset:  # emptied: NCCL continues at its own position
        return "", offset
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(READ_BYTES)
        if size > offset + len(raw):
            file.seek(max(offset + len(raw), size - END_BYTES))
            raw += b"\n" + file.read(END_BYTES)
        end = file.tell()
    text, _, rest = raw.rpartition(b"\n")
    return text.decode(errors="replace").replace("\0", ""), end - len(rest)


def _limit_disk(path: Path) -> None:
    if path.stat().st_blocks * 512 > DISK_BYTES:
        os.truncate(path, 0)


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - KEPT_BYTES))
        return file.read(KEPT_BYTES).decode(errors="replace").replace("\0", "")
