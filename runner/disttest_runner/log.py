"""The container's log: progress, what ranks wrote, the framed report. Capped: only its newest file can be read back."""

import sys
from collections.abc import Iterable
from typing import TextIO

from disttest_contract import limits

# Shares of limits.LOG_BYTES; what is left belongs to the report.
RANK_OUTPUT_BYTES = 1 << 20
PROGRESS_BYTES = 1 << 20
REPORT_BYTES = limits.LOG_BYTES - RANK_OUTPUT_BYTES - PROGRESS_BYTES
LINE_BYTES = 4096  # longer lines are folded: container runtimes would split them elsewhere


class Log:
    """Whole lines, flushed one by one. A reader that went away is no reason to stop."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._progress_left = PROGRESS_BYTES
        self._output_left = RANK_OUTPUT_BYTES
        self._output_cut = 0

    def say(self, text: str) -> None:
        """A line of the runner's own, at most PROGRESS_BYTES of them."""
        if self._progress_left <= 0:
            return
        self._progress_left -= len(text) + 1
        if self._progress_left <= 0:
            text = f"… more than {PROGRESS_BYTES} bytes of progress: the rest is in the report only"
        self._write([text])

    def rank_output(self, source: str, line: bytes) -> None:
        """A line of what a rank (or the zygote) wrote. The prefix keeps it from looking like one of ours."""
        if self._output_left <= 0:
            self._output_cut += len(line)
            return
        text = line.decode(errors="replace").replace("\r", " ")
        pieces = [text[i : i + LINE_BYTES] for i in range(0, len(text), LINE_BYTES)] or [""]
        lines = [f"[{source}] {piece}" for piece in pieces]
        self._output_left -= sum(len(line) + 1 for line in lines)
        if self._output_left <= 0:
            lines.append(f"[{source}] … more than {RANK_OUTPUT_BYTES} bytes of output: the rest is dropped")
        self._write(lines)

    def say_what_was_cut(self) -> None:
        if self._output_cut:
            self._write([f"… {self._output_cut} bytes of the ranks' output were dropped"])

    def report(self, frames: Iterable[str]) -> None:
        self._write(frames)

    def _write(self, lines: Iterable[str]) -> None:
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more, or the stream was closed
            self._progress_left = self._output_left = 0
