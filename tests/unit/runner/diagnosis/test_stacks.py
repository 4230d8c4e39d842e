"""Stacks as faulthandler writes them: read, tidied, and asked where a rank is."""

import faulthandler
import os
import tempfile
import threading
from pathlib import Path

import pytest

from disttest_runner.diagnosis import observation
from disttest_runner.diagnosis.observation import StackPlace
from disttest_runner.linux import kernel_states
from disttest_runner.linux.kernel_states import KernelState
from tests.support import patience

SITE = "/venv/lib/python3.11/site-packages"
WATCHER = f"""Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/socket.py", line 573 in recv_fds
  File "{SITE}/disttest_runner/protocol/wire.py", line 64 in receive
  File "{SITE}/disttest_runner/diagnosis/responder.py", line 57 in _serve
"""
OTHER = """Thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/tests/test_it.py", line 5 in worker
"""
OUTER = f"""  File "{SITE}/_pytest/python.py", line 187 in pytest_pyfunc_call
  File "{SITE}/pluggy/_execution.py", line 147 in _multicall
  File "{SITE}/disttest_runner/rank/session.py", line 95 in _run
  File "{SITE}/disttest_runner/rank/rank.py", line 55 in main
  File "<frozen runpy>", line 88 in _run_code
"""


def main(*frames: str) -> str:
    return (
        "Current thread 0x00007f03 (most recent call first):\n" + "".join(f"  File {one}\n" for one in frames) + OUTER
    )


C10D = f'"{SITE}/torch/distributed/distributed_c10d.py", line 3252 in'
WRAPPER = f'"{SITE}/torch/distributed/c10d_logger.py", line 83 in wrapper'
INIT = f"{C10D} init_process_group"
FSDP = f'"{SITE}/torch/distributed/fsdp/x.py", line 1 in step'
AT = "test_hang (test_it.py:40)"
TEST = '"/tests/test_it.py", line 40 in test_hang'


def test_the_main_thread_comes_first_and_the_runner_s_own_is_left_out() -> None:
    found = observation.threads(f"{WATCHER}\n{OTHER}\n{main(TEST)}")
    assert [lines[0].split()[-5] for lines in found] == ["0x00007f03", "0x00007f02"]


def test_what_lies_outside_of_the_case_is_counted_not_shown() -> None:
    text = observation.tidy(f"{WATCHER}\n{OTHER}\n{main(TEST)}", 8192)
    assert text.splitlines()[:3] == [
        "Current thread 0x00007f03 (most recent call first):",
        '  File "/tests/test_it.py", line 40 in test_hang',
        "  … 5 frames of pytest and the runner",
    ]
    assert "worker" in text
    assert "recv_fds" not in text


def test_pytest_s_own_frames_are_shown_where_it_is_pytest_that_hangs() -> None:
    assert "pytest_pyfunc_call" in observation.tidy(main(), 8192)


def test_a_stack_is_cut_to_its_size_with_a_mark() -> None:
    text = observation.tidy(main(*[f'"/tests/ü.py", line {n} in recursion' for n in range(1000)]), 1000)
    assert len(text.encode()) <= 1000
    assert text.endswith("…")


def test_what_is_no_stack_stays_as_it_is() -> None:
    assert observation.tidy("Segmentation fault", 100) == "Segmentation fault"
    assert observation.place("Segmentation fault") == StackPlace()
    assert observation.place("") == StackPlace()


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([TEST], StackPlace("", AT)),
        ([f"{C10D} all_reduce", WRAPPER, TEST], StackPlace("all_reduce", AT)),
        ([f"{C10D} _store_based_barrier", INIT, WRAPPER, TEST], StackPlace("init_process_group", AT)),
        ([f"{C10D} barrier", WRAPPER, FSDP, TEST], StackPlace("barrier", AT)),
        ([f'"{SITE}/torch/nn/modules/linear.py", line 9 in forward', TEST], StackPlace("", AT)),
        ([TEST, f"{C10D} all_reduce", '"/tests/other.py", line 1 in hook'], StackPlace("", AT)),
    ],
    ids=["python", "collective", "rendezvous", "below fsdp", "torch computes", "a hook below a collective"],
)  # fmt: skip  # a row reads as a sentence
def test_a_rank_waits_if_its_innermost_frame_does(frames: list[str], place: StackPlace) -> None:
    assert observation.place(f"{OTHER}\n{main(*frames)}") == place


def test_the_format_is_that_of_this_python() -> None:
    asked, answered = threading.Event(), threading.Event()

    def sleeper() -> None:
        answered.set()
        asked.wait(patience.stretched(30))

    thread = threading.Thread(target=sleeper)
    thread.start()
    try:
        assert answered.wait(patience.stretched(30))
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            text = file.read().decode()
    finally:
        asked.set()
        thread.join()
    found = observation.threads(text)
    assert sum("in sleeper" in line for lines in found for line in lines) == 1
    assert observation.place(text).at


def test_the_kernel_says_how_this_process_is() -> None:
    assert kernel_states.read(os.getpid()).letter == "R"
    assert kernel_states.read(os.getpid(), threading.get_native_id()).letter == "R"
    assert kernel_states.read(2**22 + 1) == KernelState("", "")


@pytest.mark.parametrize(
    ("state", "watcher", "words", "is_proof"),
    [
        (KernelState("", ""), "gone", "is gone", True),
        (KernelState("T", ""), "waits", "is stopped (SIGSTOP or a debugger)", True),
        (KernelState("t", ""), "waits", "is stopped by a tracer", True),
        (KernelState("D", "nfs_wait"), "waits", "is in an uninterruptible wait in the kernel (nfs_wait)", True),
        (KernelState("Z", ""), "gone", "has ended and was not reaped", True),
        (KernelState("R", ""), "waits", "runs in C and holds the interpreter lock", True),
        (KernelState("S", ""), "gone", "cannot answer: its watcher thread ended", False),
        (KernelState("S", "futex_wait"), "waits", "sleeps in C (futex_wait) and holds the interpreter lock", True),
        (KernelState("R", ""), "starved", "gets too little CPU time to answer", False),
        (KernelState("S", ""), "starved", "gets too little CPU time to answer", False),
    ],
)
def test_silence_is_explained(state: KernelState, watcher: str, words: str, is_proof: bool) -> None:  # noqa: FBT001  # a table
    known = {"has_watcher": watcher != "gone", "is_starved": watcher == "starved"}
    assert kernel_states.describe(state, **known).startswith(words)
    assert kernel_states.is_proof(state, **known) == is_proof


WORKING, WATCHING = 7, 9  # threads


def samples(main: str, watcher: str, used_seconds: float) -> list[kernel_states.Threads]:
    """Return one sample per letter; the main thread used this much CPU time in total."""
    step = used_seconds / max(1, len(main) - 1)
    return [
        {WORKING: kernel_states.Thread(one, 5 + number * step), WATCHING: kernel_states.Thread(other, 1)}
        for number, (one, other) in enumerate(zip(main, watcher, strict=True))
    ]


@pytest.mark.parametrize(
    ("main", "watcher", "used_seconds", "is_starved"),
    [
        pytest.param("RRRRRRRRRR", "SSSSSSSSSS", 0.2, False, id="spins in C"),
        pytest.param("RRRRRRRRRR", "SSRSSSRSSS", 0.06, False, id="spins in C on a busy machine"),
        pytest.param("SSSSSSSSSS", "SSSSSSSSSS", 0.0, False, id="sleeps in C"),
        pytest.param("RRRRRRRRRR", "SSSSSSSSSS", 0.004, True, id="would run and gets no processor"),
        pytest.param("SRRRSRRRRR", "SRSSRSSSSR", 0.01, True, id="gets a processor now and then"),
        pytest.param("SSSSSSSSSS", "RRRRRRRRRR", 0.0, True, id="the watcher gets no processor"),
        pytest.param("SSRSSSSRSS", "SSSSSSSSSS", 0.01, False, id="wakes now and then"),
    ],
)
def test_a_thread_that_would_run_and_gets_no_processor_is_starved(
    main: str,
    watcher: str,
    used_seconds: float,
    is_starved: bool,  # noqa: FBT001  # a table
) -> None:
    assert kernel_states.is_starved(samples(main, watcher, used_seconds), WATCHING) == is_starved


def test_processor_time_of_threads_is_counted_with_and_without_the_schedulers_statistics(tmp_path: Path) -> None:
    here = kernel_states.threads(os.getpid())[threading.get_native_id()]
    assert here.letter == "R"
    assert here.cpu_seconds > 0
    task = tmp_path / "7" / "task" / "7"
    task.mkdir(parents=True)
    (task / "stat").write_text(f"7 (a) R {' '.join(['0'] * 10)} {kernel_states.TICKS} {kernel_states.TICKS} 0")
    assert kernel_states.threads(7, tmp_path) == {7: kernel_states.Thread("R", 2.0)}
    (task / "schedstat").write_text("1500000000 7 3\n")
    assert kernel_states.threads(7, tmp_path) == {7: kernel_states.Thread("R", 1.5)}
    assert kernel_states.threads(8, tmp_path) == {}


def test_a_process_may_have_any_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    proc = tmp_path_factory.mktemp("proc")
    (proc / "7").mkdir()
    (proc / "7" / "stat").write_bytes(b"7 (a) T \n(b)) S 1 2 3")
    assert kernel_states.read(7, proc=proc).letter == "S"
