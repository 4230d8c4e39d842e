"""The container's log: capped in bytes, whole lines, and never silenced by what a test wrote."""

import io

import pytest

from disttest_runner.output import log
from disttest_runner.output.log import LINE_BYTES, PROGRESS_BYTES, PROGRESS_LINE_BYTES, RANK_OUTPUT_BYTES, Log

MARGIN_BYTES = 2 * LINE_BYTES + 200  # the line that exceeds it, and the one that reports this


class Wire(io.TextIOWrapper):
    """A stream as strict as a process's own."""

    def __init__(self) -> None:
        self.raw_bytes = io.BytesIO()
        super().__init__(self.raw_bytes, encoding="utf-8", errors="strict", newline="")

    @property
    def written(self) -> bytes:
        return self.raw_bytes.getvalue()


@pytest.mark.parametrize(
    "line", [b"a" * 100, b"\xff" * 5000, "ä€𝄞".encode() * 50, b""], ids=["ascii", "junk", "wide", "empty"]
)
def test_what_ranks_write_is_capped_in_bytes(line: bytes) -> None:
    wire = Wire()
    written = Log(wire)
    for _ in range(RANK_OUTPUT_BYTES // 8):
        written.rank_output("rank 0", line)
    assert RANK_OUTPUT_BYTES - MARGIN_BYTES < len(wire.written) < RANK_OUTPUT_BYTES + MARGIN_BYTES
    assert max(len(one) for one in wire.written.splitlines()) <= LINE_BYTES + len("[rank 0] ")


def test_what_a_rank_writes_is_under_the_heading_of_its_case() -> None:
    wire = Wire()
    written = Log(wire)
    written.rank_output("rank 0", b"importing")
    written.rank_output("rank 0", b"one", heading="==> mine: test_a <==")
    written.rank_output("rank 1", b"one", heading="==> mine: test_a <==")
    written.rank_output("rank 0", b"two", heading="==> mine: test_a <==")
    written.rank_output("rank 0", b"three", heading="==> mine: test_b <==")
    assert wire.written.decode().splitlines() == [
        "[rank 0] importing",
        "[rank 0] ==> mine: test_a <==",
        "[rank 0] one",
        "[rank 1] ==> mine: test_a <==",
        "[rank 1] one",
        "[rank 0] two",
        "[rank 0] ==> mine: test_b <==",
        "[rank 0] three",
    ]


def test_progress_is_capped_in_bytes() -> None:
    wire = Wire()
    written = Log(wire)
    for _ in range(PROGRESS_BYTES // 1000):
        written.say("€" * 1000)
    assert len(wire.written) < PROGRESS_BYTES + MARGIN_BYTES
    assert wire.written.decode().splitlines()[-1].startswith("… more than")


def test_text_that_is_no_unicode_does_not_silence_the_log() -> None:
    wire = Wire()
    written = Log(wire)
    written.say("test_x[\ud800] failed")
    written.say("next")
    assert wire.written == b"test_x[\\ud800] failed\nnext\n"


def test_the_report_is_written_whatever_was_cut_before() -> None:
    wire = Wire()
    written = Log(wire)
    for _ in range(PROGRESS_BYTES // 1000 + 1):
        written.say("x" * 1000)
        written.rank_output("rank 0", b"x" * 2000)
    written.report(["frame"])
    assert wire.written.endswith(b"frame\n")


def test_a_reader_that_went_away_is_no_reason_to_stop() -> None:
    wire = Wire()
    written = Log(wire)
    wire.close()
    written.say("without a reader")
    written.report(["frame"])


def test_lines_on_how_far_the_run_is_have_a_share_of_their_own() -> None:
    wire = Wire()
    written = Log(wire)
    for _ in range(PROGRESS_LINE_BYTES // 1000 + 100):
        written.progress_line("p" * 999)
    assert PROGRESS_LINE_BYTES - 2000 < len(wire.written) <= PROGRESS_LINE_BYTES
    written.say("for people")
    assert wire.written.endswith(b"for people\n")


def test_all_shares_fit_into_what_can_be_read_back() -> None:
    assert log.REPORT_BYTES > 0
    assert RANK_OUTPUT_BYTES + PROGRESS_BYTES + log.REPORT_BYTES <= 4 << 20


def test_a_noted_line_is_written_before_the_next_one_of_anybody() -> None:
    wire = Wire()
    written = Log(wire)
    written.note("case 1 passed")
    assert wire.written == b""
    written.rank_output("rank 0", b"case 2 prints")
    written.note("case 2 passed")
    written.write_noted()
    written.write_noted()
    assert wire.written.splitlines() == [b"case 1 passed", b"[rank 0] case 2 prints", b"case 2 passed"]


def test_nothing_is_dropped_of_a_log_that_somebody_reads_as_it_is_written() -> None:
    wire = Wire()
    written = Log(wire, is_kept=False)
    for _ in range(3 * PROGRESS_BYTES // 1000):
        written.say("p" * 999)
        written.rank_output("rank 0", b"r" * 990)
        written.progress_line("l" * 999)
    written.say_dropped()
    assert len(wire.written) == 3 * (3 * PROGRESS_BYTES // 1000) * 1000
