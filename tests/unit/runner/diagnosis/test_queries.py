"""An agent's queries to its ranks: valid answers are used, and the state of a rank without an answer is explained."""

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from disttest_runner.diagnosis import queries
from disttest_runner.diagnosis.flight_recorder import Trace
from disttest_runner.diagnosis.observation import STACK_BYTES, RankObservation
from disttest_runner.diagnosis.queries import RankQueries
from disttest_runner.linux import kernel_states
from tests.support import patience

STACK = 'Thread 0x01 (most recent call first):\n  File "/tests/test_it.py", line 40 in test_hang\n'
GROUP = ["gloo", "0", "default_pg", 0, "0-3", 5, [[5, "all_reduce", "float32[1]", 1, 0, 0]]]
ANSWER = [{"op": "stack", "text": STACK}, {"op": "trace", "trace": [GROUP], "problem": ""}]


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Sleeps, and lets SIGUSR1 pass."""
    process = subprocess.Popen(["sh", "-c", "trap '' USR1; exec sleep 1000"])
    deadline = patience.Deadline(20)
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep"):
        assert not deadline.has_passed()
    yield process
    process.kill()
    process.wait()


def look(pid: int, *lines: bytes) -> tuple[RankObservation, str]:
    """One rank that has not finished, and what it sends when it is asked."""

    async def main() -> tuple[RankObservation, str]:
        one, descriptors = await RankQueries.open("0")
        one.pid = pid
        its = socket.socket(fileno=descriptors[0])
        answering = threading.Thread(target=answer, args=(its,))
        answering.start()
        try:
            seen, problem = await queries.observe({0: one}, {0})
        finally:
            one.close()
            os.close(descriptors[1])
            await asyncio.to_thread(answering.join)
            its.close()
        return seen[0], problem

    def answer(its: socket.socket) -> None:
        its.recv(4096)
        for line in lines:
            its.sendall(line + b"\n")

    return asyncio.run(main())


def packed(*messages: object) -> list[bytes]:
    return [json.dumps(message).encode() for message in messages]


def test_an_answer_is_stack_place_and_trace() -> None:
    seen, problem = look(os.getpid(), *packed(*ANSWER))
    assert problem == ""
    assert seen.place.at == "test_hang (test_it.py:40)"
    assert "test_hang" in seen.stack
    assert seen.silent == ""
    assert seen.trace is not None
    assert seen.trace.groups[0].members == (0, 1, 2, 3)


def test_a_rank_without_a_recorder_has_no_trace_and_is_not_silent() -> None:
    seen, problem = look(os.getpid(), *packed(ANSWER[0], {"op": "trace", "trace": None, "problem": "KeyError('x')"}))
    assert (seen.trace, seen.silent, problem) == (None, "", "KeyError('x')")


@pytest.mark.parametrize("trace", [[[1, 2]], "x", 7, {"a": 1}, [[*GROUP[:4], "0-999999999", 5, []]]])
def test_a_trace_that_makes_no_sense_is_none(trace: object) -> None:
    seen, _ = look(os.getpid(), *packed(ANSWER[0], {"op": "trace", "trace": trace, "problem": ""}))
    assert seen.trace in (None, Trace())


def test_a_huge_stack_is_cut() -> None:
    seen, _ = look(os.getpid(), *packed({"op": "stack", "text": "x" * 1_000_000}, ANSWER[1]))
    assert len(seen.stack.encode()) == STACK_BYTES


def test_garbage_is_no_answer(process: subprocess.Popen[bytes]) -> None:
    seen, _ = look(process.pid, b"\xff\xfe", b"[]", b"{}", b'{"op": "hello", "thread": "x"}')
    assert (seen.silent, seen.is_excused) == ("cannot answer: its watcher thread ended", True)


def test_a_rank_that_cannot_answer_is_waited_for_a_moment_only(process: subprocess.Popen[bytes]) -> None:
    started = time.monotonic()
    seen, _ = look(process.pid, *packed({"op": "hello", "thread": process.pid}))
    assert time.monotonic() - started < queries.STARVED_SECONDS + 5
    assert seen.silent.startswith("sleeps in C")
    assert not seen.is_excused


@pytest.mark.parametrize(
    ("of_watcher", "words"),
    [("RRRSRRR", "sleeps in C"), ("R", "gets too little CPU time to answer")],
)
def test_a_watcher_that_sleeps_now_and_then_waits_for_the_interpreter(
    of_watcher: str, words: str, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = itertools.cycle(of_watcher)

    def threads(_: int) -> dict[int, kernel_states.Thread]:
        return {1: kernel_states.Thread("S", 0), 7: kernel_states.Thread(next(letters), 0)}

    monkeypatch.setattr(kernel_states, "threads", threads)
    seen, _ = look(process.pid, *packed({"op": "hello", "thread": 7}))
    assert seen.silent.startswith(words)


def test_a_stopped_rank_is_not_waited_for(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    seen, _ = look(process.pid)
    assert (seen.silent, seen.is_excused) == ("is stopped (SIGSTOP or a debugger)", False)


def test_a_rank_that_is_gone_is_said_to_be(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert look(process.pid)[0].silent == "is gone"
