"""Lines, logs and small files at the edges, without a network."""

import asyncio
import io
import os
import socket
import time
from pathlib import Path

import pytest

from disttest_contract.transport.termination_message import Summary
from disttest_runner.output.log import LINE_BYTES, PROGRESS_BYTES, RANK_OUTPUT_BYTES, Log
from disttest_runner.output.termination import TerminationMessage
from disttest_runner.protocol import wire
from disttest_runner.protocol.wire import Channel, LineProtocol, WireError, pack, unpack
from tests.support import patience


def test_a_message_is_one_line_and_comes_back() -> None:
    message = {"op": "done", "text": "two\nlines ü"}
    assert pack(message).count(b"\n") == 1
    assert unpack(pack(message)) == message


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(WireError):
        unpack(raw)


def test_a_channel_takes_messages_in_pieces_and_descriptors_with_them() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Path(os.devnull).open("rb") as file:
        channel = Channel(ours)
        socket.send_fds(theirs, [pack({"op": "fork"})], [file.fileno()])
        theirs.sendall(pack({"op": "a"}) + pack({"op": "b"})[:4])
        assert channel.receive() == {"op": "fork"}
        (descriptor,) = channel.take_descriptors(1)
        os.close(descriptor)
        assert channel.receive() == {"op": "a"}
        theirs.sendall(pack({"op": "b"})[4:])
        assert channel.receive() == {"op": "b"}
        theirs.close()
        assert channel.receive() is None


async def lines_from(*chunks: bytes, limit: int) -> tuple[list[bytes], bool]:
    """What arrives of bytes sent in chunks, and whether the connection was closed."""
    got: list[bytes] = []
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    _, lines = await loop.create_connection(
        lambda: LineProtocol(lambda _, raw: got.append(raw), lambda _: None, limit), sock=ours
    )
    with theirs:
        theirs.setblocking(False)
        for chunk in chunks:
            try:
                await loop.sock_sendall(theirs, chunk)
            except ConnectionError:
                break
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        deadline = patience.Deadline(10)
        expected = b"".join(chunks).count(b"\n")
        while len(got) < expected and not lines.is_lost and not deadline.has_passed():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
        lost = lines.is_lost
        lines.close()
        await asyncio.sleep(0)
    return got, lost


def test_lines_are_put_together_from_pieces() -> None:
    got, lost = asyncio.run(lines_from(b"ab", b"c\nd", b"\n\n", limit=10))
    assert (got, lost) == ([b"abc", b"d", b""], False)


def test_a_line_that_is_too_long_ends_the_connection() -> None:
    got, lost = asyncio.run(lines_from(b"ok\n", b"x" * 11 + b"\nafter\n", limit=10))
    assert (got, lost) == ([b"ok"], True)


def test_a_line_without_an_end_ends_the_connection() -> None:
    got, lost = asyncio.run(lines_from(b"x" * 6, b"x" * 6, b"\n", limit=10))
    assert (got, lost) == ([], True)


def test_the_log_marks_what_ranks_wrote_and_folds_long_lines() -> None:
    stream = io.StringIO()
    Log(stream).rank_output("rank 3", b"hello\rDISTTEST-REPORT x" + b"y" * LINE_BYTES)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(line.startswith("[rank 3] ") for line in lines)


def test_the_log_cuts_what_ranks_write_and_says_so() -> None:
    stream = io.StringIO()
    log = Log(stream)
    for _ in range(3000):
        log.rank_output("rank 0", b"z" * 1000)
    log.say("still here")
    log.say_dropped()
    lines = stream.getvalue().splitlines()
    assert len(stream.getvalue()) < RANK_OUTPUT_BYTES + 10_000
    assert any("the rest is dropped" in line for line in lines)
    assert lines[-2] == "still here"
    assert "bytes of the ranks' output were dropped" in lines[-1]


def test_the_log_cuts_progress_too() -> None:
    stream = io.StringIO()
    log = Log(stream)
    for _ in range(2000):
        log.say("p" * 1000)
    assert len(stream.getvalue()) < PROGRESS_BYTES + 1000
    assert stream.getvalue().splitlines()[-1].endswith("the rest is in the report only")


def test_a_log_that_nobody_reads_is_no_reason_to_stop() -> None:
    stream = io.StringIO()
    stream.close()
    Log(stream).say("hello?")


def summary() -> Summary:
    return Summary(uid="u", attempt=1, node_index=0, step="starting")


def test_the_termination_message_is_written_over_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "message"
    path.write_text("x" * 5000)
    inode = path.stat().st_ino
    message = TerminationMessage(str(path), summary(), Log(io.StringIO()))
    message.update(step="running", current="a" * 500)
    message.update(current="")
    assert path.stat().st_ino == inode  # a bind mount cannot be replaced
    read = Summary.read(path.read_text()[:4096])
    assert read is not None
    assert (read.step, read.current) == ("running", "")


def test_what_was_noted_is_written_once_asked_for_or_with_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / "message"

    def step() -> str:
        read = Summary.read(path.read_text())
        assert read is not None
        return f"{read.step} {read.current}".strip()

    message = TerminationMessage(str(path), summary(), Log(io.StringIO()))
    message.note(step="collecting")
    assert step() == "starting"
    message.write_noted()
    assert step() == "collecting"
    message.note(step="running")
    message.update(current="a case")
    assert step() == "running a case"


def test_a_termination_message_is_cheap_enough_for_every_case(tmp_path: Path) -> None:
    message = TerminationMessage(str(tmp_path / "message"), summary(), Log(io.StringIO()))
    best = min(_seconds(message) for _ in range(50))
    assert best < 0.0005


def _seconds(message: TerminationMessage) -> float:
    started = time.perf_counter()
    message.update(current="case")
    return time.perf_counter() - started


def test_the_hello_limit_is_far_below_that_of_known_agents() -> None:
    assert wire.HELLO_BYTES < wire.LINE_BYTES / 1000


def test_a_channel_without_descriptors_takes_messages_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours, takes_descriptors=False)
        theirs.sendall(pack({"op": "a"}) + pack({"op": "b"})[:4])
        assert channel.receive() == {"op": "a"}
        theirs.sendall(pack({"op": "b"})[4:])
        assert channel.receive() == {"op": "b"}
        theirs.close()
        assert channel.receive() is None


def test_lines_longer_than_one_read_are_put_together() -> None:
    long = b"x" * (3 * wire.READ_BYTES + 5)
    got, lost = asyncio.run(lines_from(long + b"\nshort\n", limit=len(long)))
    assert (got, lost) == ([long, b"short"], False)


def test_two_connections_do_not_mix_what_they_read() -> None:
    async def both() -> list[list[bytes]]:
        one, other = await asyncio.gather(
            lines_from(b"a" * 9, b"b\n", limit=100), lines_from(b"c" * 9, b"d\n", limit=100)
        )
        return [one[0], other[0]]

    assert asyncio.run(both()) == [[b"a" * 9 + b"b"], [b"c" * 9 + b"d"]]
