"""The container's log: progress, what ranks wrote, the framed report. Capped: only its newest file can be read back."""

import hashlib
import io
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

from disttest_contract import limits
from disttest_contract.results import trimming
from disttest_contract.results.report import Report
from disttest_contract.transport import frames

# Shares of limits.LOG_BYTES; what is left belongs to the report.
RANK_OUTPUT_BYTES = 1 << 20
PROGRESS_BYTES = 1 << 20
PROGRESS_LINE_BYTES = 384 << 10  # of these: lines for programs on how far the run is
TEXT_BYTES = PROGRESS_BYTES - PROGRESS_LINE_BYTES  # lines for people
REPORT_BYTES = limits.LOG_BYTES - RANK_OUTPUT_BYTES - PROGRESS_BYTES
LINE_BYTES = 4096  # longer lines are folded: container runtimes would split them elsewhere


class Log:
    """Whole lines. A reader that went away is no reason to stop."""

    def __init__(self, stream: TextIO | None = None, *, is_kept: bool = True) -> None:
        """Nothing is dropped of a log that is not kept: whoever reads it has read it."""
        self._stream = stream or sys.stdout
        if isinstance(self._stream, io.TextIOWrapper):  # what a test wrote need not be encodable
            self._stream.reconfigure(errors="backslashreplace")
        self._progress_left = TEXT_BYTES if is_kept else sys.maxsize
        self._progress_lines_left = PROGRESS_LINE_BYTES if is_kept else sys.maxsize
        self._output_left = RANK_OUTPUT_BYTES if is_kept else sys.maxsize
        self._output_cut = 0
        self._noted: list[str] = []
        self._headings: dict[str, str] = {}  # source -> the heading that its last line is under

    def say(self, text: str) -> None:
        """A line of the runner's own, at most TEXT_BYTES of them."""
        self.note(text)
        self.write_noted()

    def note(self, text: str) -> None:
        """The same, written with the next line of anybody's or by `write_noted`: each write wakes who reads the log."""
        if self._progress_left <= 0:
            return
        self._progress_left -= _bytes(text)
        if self._progress_left <= 0:
            text = f"… more than {TEXT_BYTES} bytes of progress: the rest is in the report only"
        self._noted.append(text)

    def progress_line(self, line: str) -> None:
        """How far the run is. Whoever writes these spaces them; beyond their share there are none."""
        self._progress_lines_left -= _bytes(line)
        if self._progress_lines_left > 0:
            self._write([line])

    def write_noted(self) -> None:
        if self._noted:
            self._write([])

    def rank_output(self, source: str, line: bytes, *, heading: str = "") -> None:
        """Write a line of a rank's (or the zygote's) output, below the heading of its case.

        The prefix keeps it from looking like a line of the runner.
        """
        if self._output_left <= 0:
            self._output_cut += len(line)
            return
        text = line.decode(errors="replace").replace("\r", " ")
        fold = LINE_BYTES if text.isascii() else LINE_BYTES // 4  # a character takes up to 4 bytes
        pieces = [text[i : i + fold] for i in range(0, len(text), fold)] or [""]
        if heading and self._headings.get(source) != heading:
            self._headings[source] = heading
            pieces.insert(0, heading)
        lines = [f"[{source}] {piece}" for piece in pieces]
        self._output_left -= sum(map(_bytes, lines))
        if self._output_left <= 0:
            lines.append(f"[{source}] … more than {RANK_OUTPUT_BYTES} bytes of output: the rest is dropped")
        self._write(lines)

    def say_what_was_cut(self) -> None:
        if self._output_cut:
            self._write([f"… {self._output_cut} bytes of the ranks' output were dropped"])

    def report(self, frames: Iterable[str]) -> None:
        self._write(frames)

    def _write(self, lines: Iterable[str]) -> None:
        noted, self._noted = self._noted, []
        try:
            self._stream.write("".join(f"{line}\n" for line in (*noted, *lines)))
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more, or the stream was closed
            self._progress_left = self._output_left = self._progress_lines_left = 0


def _bytes(line: str) -> int:
    """What it takes, its end included."""
    return (len(line) if line.isascii() else len(line.encode(errors="backslashreplace"))) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """The lines to print, the checksum of what they carry, and what that leaves out."""

    lines: tuple[str, ...]
    sha256: str
    trimmed: str


def frame_report(report: Report, nonce: str, limit_bytes: int) -> Framed:
    raw, lines, trimmed = trimming.fit(report.to_json(), lambda raw: frames.encode_within(raw, nonce, limit_bytes))
    return Framed(lines=tuple(lines), sha256=hashlib.sha256(raw).hexdigest(), trimmed=trimmed)
