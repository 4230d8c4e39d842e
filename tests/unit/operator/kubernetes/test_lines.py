"""Our lines out of what a container writes, in whatever pieces it comes."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttest_operator.kubernetes.log_streams import NEWEST, LineReader
from tests.support.builders import strategies as some

TEXT = b"hello\nMARK one\nMARKER no\nMARK " + b"x" * 40 + b"\n\nMARK \xff\nMARK two\nMA\nMARK not ended"
OURS = ["MARK one", "MARK \ufffd", "MARK two"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_lines_are_found_wherever_the_pieces_are_cut(size: int) -> None:
    lines = LineReader("MARK ", limit_bytes=20)
    pieces = [TEXT[begin : begin + size] for begin in range(0, len(TEXT), size)]
    assert [line for piece in pieces for line in lines.feed(piece)] == OURS


@pytest.mark.parametrize("begin", [b"", b"MARK "], ids=["of others", "of ours"])
def test_a_line_without_end_takes_no_memory(begin: bytes) -> None:
    lines, piece = LineReader("MARK ", limit_bytes=4096), b"x" * 65536
    lines.feed(begin)
    tracemalloc.start()
    for _ in range(1000):
        assert lines.feed(piece) == []
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1 << 20, "of 64 MB"
    assert lines.feed(b"\nMARK here\n") == ["MARK here"]


@pytest.mark.parametrize("noise", [b"\n", b"a\n", b"MAR\n", b"MARK x\n"], ids=ascii)
def test_many_lines_are_read_in_little_time(noise: bytes) -> None:
    lines, piece = LineReader("MARK ", limit_bytes=4096), noise * (65536 // len(noise))
    started = time.process_time()
    for _ in range(256):
        assert len(lines.feed(piece)) <= NEWEST
    assert time.process_time() - started < 1.5, "of 16 MiB"
    assert lines.feed(b"MARK here\n") == ["MARK here"]


@given(st.lists(st.sampled_from([b"MARK ", b"MAR", b"K ", b"\n", b"x", b"x" * 30, b"\xff"]), max_size=30), some.chunks)
def test_lines_are_those_of_the_whole_text_however_it_comes(parts: list[bytes], sizes: list[int]) -> None:
    text = b"".join(parts)
    *ended, _ = text.split(b"\n")
    ours = [line.decode(errors="replace") for line in ended if line.startswith(b"MARK ") and len(line) <= 20]
    lines, found = LineReader("MARK ", limit_bytes=20), []
    for size in sizes:
        found += lines.feed(text[:size])
        text = text[size:]
    assert [*found, *lines.feed(text)][-NEWEST:] == ours[-NEWEST:]
