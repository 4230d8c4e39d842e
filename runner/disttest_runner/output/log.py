"""The container's log: progress, ranks' output, the framed report. Limited in size, so that nothing rotates away."""

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

# Shares of limits.LOG_BYTES; the rest is for the report.
RANK_OUTPUT_BYTES = 1 << 20
PROGRESS_BYTES = 1 << 20
PROGRESS_LINE_BYTES = 384 << 10  # of these: progress lines for programs
TEXT_BYTES = PROGRESS_BYTES - PROGRESS_LINE_BYTES  # lines for people
REPORT_BYTES = limits.LOG_BYTES - RANK_OUTPUT_BYTES - PROGRESS_BYTES
LINE_BYTES = 4096  # longer lines are folded, since container runtimes would split them


class Log:
    """Writes whole lines, and ignores that the reader has closed the stream."""

    def __init__(self, stream: TextIO | None = None, *, is_kept: bool = True) -> None:
        """A log that is not stored (`is_kept`) has no size limits."""
        self._stream = stream or sys.stdout
        if isinstance(self._stream, io.TextIOWrapper):  # tests may write what cannot be encoded
            self._stream.reconfigure(errors="backslashreplace")
        self._progress_left = TEXT_BYTES if is_kept else sys.maxsize
        self._progress_lines_left = PROGRESS_LINE_BYTES if is_kept else sys.maxsize
        self._output_left = RANK_OUTPUT_BYTES if is_kept else sys.maxsize
        self._output_cut = 0
        self._noted: list[str] = []
        self._headings: dict[str, str] = {}  # source -> the heading that its last line is under

    def say(self, text: str) -> None:
        """Write a line of the runner, at most TEXT_BYTES in total."""
        self.note(text)
        self.write_noted()

    def note(self, text: str) -> None:
        """Buffer a line until the next write or `write_noted`: each write wakes the log's readers."""
        if self._progress_left <= 0:
            return
        self._progress_left -= _bytes(text)
        if self._progress_left <= 0:
            text = f"… more than {TEXT_BYTES} bytes of progress: the rest is in the report only"
        self._noted.append(text)

    def progress_line(self, line: str) -> None:
        """Write a progress line, which the caller paces; beyond their share they are dropped."""
        self._progress_lines_left -= _bytes(line)
        if self._progress_lines_left > 0:
            self._write([line])

    def write_noted(self) -> None:
        if self._noted:
            self._write([])

    def rank_output(self, source: str, line: bytes, *, heading: str = "") -> None:
        """Write a line of a rank's or zygote's output under its case's heading. The prefix marks it as such."""
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

    def say_dropped(self) -> None:
        if self._output_cut:
            self._write([f"… {self._output_cut} bytes of the ranks' output were dropped"])

    def report(self, frames: Iterable[str]) -> None:
        self._write(frames)

    def _write(self, lines: Iterable[str]) -> None:
        noted, self._noted = self._noted, []
        try:
            self._stream.write("".join(f"{line}\n" for line in (*noted, *lines)))
            self._stream.flush()
        except (OSError, ValueError):  # the reader is gone, or the stream was closed
            self._progress_left = self._output_left = self._progress_lines_left = 0


def _bytes(line: str) -> int:
    return (len(line) if line.isascii() else len(line.encode(errors="backslashreplace"))) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Framed:
    """A report as lines to print, with its checksum, and what was trimmed of it, in words."""

    lines: tuple[str, ...]
    sha256: str
    trimmed: str


def frame_report(report: Report, nonce: str, limit_bytes: int) -> Framed:
    raw, lines, trimmed = trimming.fit(report.to_json(), lambda raw: frames.encode_within(raw, nonce, limit_bytes))
    return Framed(lines=tuple(lines), sha256=hashlib.sha256(raw).hexdigest(), trimmed=trimmed)
