"""Our lines out of what a container writes, in whatever pieces it comes."""

import tracemalloc

import pytest

from disttest_operator.core.lines import Lines

TEXT = b"hello\nMARK one\nMARKER no\nMARK " + b"x" * 40 + b"\n\nMARK \xff\nMARK two\nMA\nMARK not ended"
OURS = ["MARK one", "MARK \ufffd", "MARK two"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 1000])
def test_lines_are_found_wherever_the_pieces_are_cut(size: int) -> None:
    lines = Lines("MARK ", limit_bytes=20)
    pieces = [TEXT[begin : begin + size] for begin in range(0, len(TEXT), size)]
    assert [line for piece in pieces for line in lines.feed(piece)] == OURS


@pytest.mark.parametrize("begin", [b"", b"MARK "], ids=["of others", "of ours"])
def test_a_line_without_end_takes_no_memory(begin: bytes) -> None:
    lines, piece = Lines("MARK ", limit_bytes=4096), b"x" * 65536
    lines.feed(begin)
    tracemalloc.start()
    for _ in range(1000):
        assert lines.feed(piece) == []
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1 << 20, "of 64 MB"
    assert lines.feed(b"\nMARK here\n") == ["MARK here"]
