"""The framed report at the end of a log: whole, or refused with the reason."""

import base64
import hashlib
import random
import tracemalloc
import zlib

import pytest

from disttest_contract import limits
from disttest_contract.transport import frames

NONCE = "0123456789abcdef"
PAYLOAD = b'{"case": "' + bytes(random.Random(1).choices(b"abcdefghijklmnop", k=20_000)) + b'"}'  # noqa: S311 - any bytes will do


def log_of(lines: list[str]) -> str:
    return "\n".join(["[rank 0] hello", *lines, ""])


def test_a_report_comes_back_from_a_log_with_other_lines() -> None:
    lines = frames.encode(PAYLOAD, NONCE)
    assert len(lines) > 4
    mixed = [line for pair in zip(lines, ["[rank 1] noise"] * len(lines), strict=True) for line in pair]
    assert frames.decode(log_of(mixed), NONCE) == PAYLOAD


def test_lines_are_short_enough_for_container_runtimes() -> None:
    assert max(map(len, frames.encode(PAYLOAD, NONCE))) <= limits.FRAME_LINE_BYTES


def test_the_last_whole_report_counts() -> None:
    lines = [*frames.encode(b"first", NONCE), *frames.encode(b"second", NONCE)]
    assert frames.decode(log_of(lines), NONCE) == b"second"


def test_a_report_with_another_nonce_is_no_report() -> None:
    with pytest.raises(frames.NoFrameError):
        frames.decode(log_of(frames.encode(PAYLOAD, "another-nonce")), NONCE)


def test_a_forged_report_beside_the_real_one_changes_nothing() -> None:
    lines = [
        *frames.encode(b"real", NONCE),
        *frames.encode(b"forged", "guessed"),
        "[rank 0] " + "\n".join(lines_of_x()),
    ]
    assert frames.decode(log_of(lines), NONCE) == b"real"


def lines_of_x() -> list[str]:
    return frames.encode(b"x", "guessed")


def test_a_rank_cannot_begin_a_line_with_the_mark() -> None:
    prefixed = [f"[rank 3] {line}" for line in frames.encode(b"forged", NONCE)]
    with pytest.raises(frames.NoFrameError):
        frames.decode(log_of(prefixed), NONCE)


def test_a_log_without_a_report_says_so() -> None:
    with pytest.raises(frames.NoFrameError, match="contains no report"):
        frames.decode("[1/2] passed\n", NONCE)


@pytest.mark.parametrize("dropped", [1, 2, -2])
def test_a_cut_report_is_refused(dropped: int) -> None:
    lines = frames.encode(PAYLOAD, NONCE)
    del lines[dropped]
    with pytest.raises(frames.FrameError, match="is incomplete"):
        frames.decode(log_of(lines), NONCE)


def test_a_report_cut_in_the_middle_of_the_log_is_refused() -> None:
    lines = frames.encode(PAYLOAD, NONCE)
    with pytest.raises(frames.FrameError, match="is incomplete"):
        frames.decode(log_of(lines[:3]), NONCE)


def test_a_tampered_report_is_refused() -> None:
    lines = frames.encode(b"all is well", NONCE)
    other = frames.encode(b"all is bad!", NONCE)
    with pytest.raises(frames.FrameError, match="checksum"):
        frames.decode(log_of([lines[0], *other[1:]]), NONCE)


@pytest.mark.parametrize("text", ["A", "AAAA", base64.b64encode(b"no zlib").decode()])
def test_garbage_is_refused(text: str) -> None:
    head = f"{frames.MARK} {NONCE}"
    log = f"{head} begin 1 {'0' * 64}\n{head} 0 {text}\n{head} end\n"
    with pytest.raises(frames.FrameError):
        frames.decode(log, NONCE)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(limits.REPORT_BYTES + 10), 9)
    text = base64.b64encode(bomb).decode()
    parts = [text[i : i + 3900] for i in range(0, len(text), 3900)]
    head = f"{frames.MARK} {NONCE}"
    digest = hashlib.sha256(b"").hexdigest()
    lines = [f"{head} begin {len(parts)} {digest}", *(f"{head} {n} {part}" for n, part in enumerate(parts))]
    with pytest.raises(frames.FrameError, match="larger than"):
        frames.decode(log_of(lines), NONCE)


def test_a_report_that_claims_millions_of_lines_costs_nothing() -> None:
    log = f"{frames.MARK} {NONCE} begin 9999999 {'0' * 64}\n"
    tracemalloc.start()
    with pytest.raises(frames.FrameError, match="9999999 of 9999999 lines are missing"):
        frames.decode(log, NONCE)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 1 << 20


@pytest.mark.parametrize("number", ["\u0663", "0x1", "-1", "1 "])
def test_a_line_that_does_not_say_its_number_as_we_do_is_none_of_the_report(number: str) -> None:
    head = f"{frames.MARK} {NONCE}"
    with pytest.raises(frames.FrameError, match="1 of 1 lines are missing"):
        frames.decode(f"{head} begin 1 {'0' * 64}\n{head} {number} AAAA\n{head} end\n", NONCE)


@pytest.mark.parametrize(("size", "is_larger"), [(1000, False), (1001, True), (limits.REPORT_BYTES * 2, True)])
def test_whether_a_report_is_large_is_known_before_it_is_unpacked(size: int, *, is_larger: bool) -> None:
    stream = zlib.compress(bytes(size), 9)
    tracemalloc.start()
    assert frames.FramedReport(stream, "").is_larger_than(1000) is is_larger
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 6 * frames.PIECE_BYTES + len(stream)


def test_what_cannot_be_unpacked_is_not_large() -> None:
    assert not frames.FramedReport(b"no zlib", "").is_larger_than(0)
