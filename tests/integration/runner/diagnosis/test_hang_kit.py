"""A case that does not end: which collective, which number, who never joined it, what each rank was doing."""

import json
from pathlib import Path

import pytest

from bench.runner import hang
from disttest_cli.local.agents import free_port
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.gangs.gang import AgentGang, case, make_plan, suite_of

CASE_SECONDS = 2
RUN_SECONDS = 300  # a deadline against hanging for ever; C frames take long on a busy machine

SUITE = """
import ctypes, os, signal, subprocess, time
import pytest, torch
import torch.distributed as dist

def add(group=None, count=1):
    dist.all_reduce(torch.ones(count), group=group)

def wait_for_ever():
    time.sleep(1000)

def test_a_rank_never_comes(gang, process_group):
    for _ in range(4):
        add()
    if gang.rank == 1:
        wait_for_ever()
    add()

def test_a_finished_rank_never_came(gang, process_group):
    if gang.rank == 2:
        return
    add()

def test_another_order(gang, process_group):
    add()
    if gang.rank == 3:
        dist.broadcast(torch.ones(3), 0)
        add()
    else:
        add()
        dist.broadcast(torch.ones(3), 0)

def test_another_size(gang, process_group):
    add(count=2 if gang.rank == 3 else 1)
    add()

def test_one_holds_the_interpreter(gang, process_group):
    add()
    if gang.rank == 2:
        lock = ctypes.create_string_buffer(64)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(lock)
    add()

def test_one_spins_in_c(gang, process_group):
    if gang.rank == 0:
        10 ** 10 ** 10
    add()

def test_one_is_stopped(gang, process_group):
    add()
    if gang.rank == 3:
        os.kill(os.getpid(), signal.SIGSTOP)
    add()

def test_all_sleep(gang):
    wait_for_ever()

def test_a_group_of_some(gang, process_group):
    some = dist.new_group([1, 3])
    if gang.rank == 1:
        wait_for_ever()
    if gang.rank == 3:
        add(some)
    add()

def test_groups_wait_for_each_other(gang, process_group):
    groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
    if gang.rank < 2:
        add(groups[gang.rank])
        add(groups[1 - gang.rank])

def test_receives_what_no_rank_sends(gang, process_group):
    if gang.rank == 0:
        dist.recv(torch.ones(1), 1)
    add()

def test_a_rank_fails_while_others_wait(gang, process_group):
    add()
    assert gang.rank != 1, "one is odd today"
    add()

def test_one_is_starved(gang, process_group):
    add()
    if gang.rank == 1:
        processor = {min(os.sched_getaffinity(0))}
        for _ in range(16):
            os.sched_setaffinity(subprocess.Popen(["sh", "-c", "while :; do :; done"]).pid, processor)
        for thread in map(int, os.listdir("/proc/self/task")):
            os.sched_setaffinity(thread, processor)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
        while True:
            pass
    add()

def test_the_watchdog_aborts_one_that_waits(gang, process_group):
    add()
    if gang.rank == 0:  # as torch does it for NCCL
        cause = b"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
        os.write(2, b"[rank0]: Process group watchdog thread terminated with exception: " + cause + b"\\n")
        os.abort()
    if gang.rank == 2:
        wait_for_ever()
    add()

def test_good(gang, process_group):
    add()
"""

SLEEPS = "import time\ndef test_hang():\n    time.sleep(1000)\n"


@pytest.fixture(scope="module")
def gang(tmp_path_factory: pytest.TempPathFactory) -> AgentGang:
    folder = tmp_path_factory.mktemp("hangs")
    plan = make_plan(
        suite_of(folder / "suite", SUITE),
        case_seconds=CASE_SECONDS,
        run_seconds=RUN_SECONDS,
        artifacts=str(folder / "artifacts"),
    )
    gang = AgentGang(plan, folder, environ={"HF_TOKEN": "secret-of-the-pod", "NCCL_DEBUG": "WARN"})
    gang.run(seconds=RUN_SECONDS)
    return gang


@pytest.fixture(scope="module")
def report(gang: AgentGang) -> Report:
    return gang.report()


def test_a_starved_rank_is_not_said_to_keep_the_interpreter(report: Report) -> None:
    """It would run, and many other processes take the only processor that it may use."""
    starved = case(report, "test_one_is_starved")
    assert starved.outcome is Outcome.HUNG
    assert (
        "ranks 0, 2, 3 wait in all_reduce number 2 of the default group; it is unknown whether all others joined it"
        in (starved.message)
    )
    assert "rank 1 gets too little CPU time to answer" in starved.message


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        (
            "test_a_rank_never_comes",
            (1,),
            (
                "ranks 0, 2, 3 wait in all_reduce number 5 of the default group; rank 1 on local-0 has not joined it "
                "(its last was number 4): rank 1 is at wait_for_ever (test_it.py:"
            ),
        ),
        (
            "test_a_finished_rank_never_came",
            (2,),
            (
                "ranks 0, 1, 3 wait in all_reduce number 1 of the default group; rank 2 on local-1 has not joined it: "
                "rank 2 finished the case (passed)"
            ),
        ),
        (
            "test_another_order",
            (3,),
            (
                "ranks disagree about collective number 2 of the default group: all_reduce of float32[1] on "
                "ranks 0, 1, 2 on local-0, local-1; broadcast of float32[3] on rank 3 on local-1"
            ),
        ),
        ("test_another_size", (3,), "all_reduce of float32[2] on rank 3 on local-1"),
        ("test_one_holds_the_interpreter", (2,), "rank 2 sleeps in C"),
        ("test_one_spins_in_c", (0,), "rank 0 runs in C"),
        ("test_one_is_stopped", (3,), "rank 3 is stopped (SIGSTOP or a debugger)"),
        ("test_all_sleep", (0, 1, 2, 3), "ranks 0, 1, 2, 3 are at wait_for_ever (test_it.py:"),
        ("test_a_group_of_some", (1,), "rank 1 is at wait_for_ever"),
        ("test_groups_wait_for_each_other", (0, 1), "ranks 0, 1 on local-0 wait for each other: rank 0 waits in"),
        ("test_receives_what_no_rank_sends", (0,), "rank 0 waits in recv"),
    ],
)
def test_a_hang_names_its_cause(report: Report, name: str, ranks: tuple[int, ...], words: str) -> None:
    result = case(report, name)
    assert result.outcome is Outcome.HUNG
    assert result.diagnosis is not None
    assert words in result.diagnosis.summary
    assert result.message.startswith(result.diagnosis.summary)
    assert result.ranks == ranks
    assert result.nodes == tuple(dict.fromkeys(f"local-{rank // 2}" for rank in ranks))


def test_the_rank_that_a_watchdog_waited_for_is_blamed_and_not_the_aborted_one(report: Report) -> None:
    result = case(report, "test_the_watchdog_aborts_one_that_waits")
    assert (result.outcome, result.ranks, result.nodes) == (Outcome.HUNG, (2,), ("local-1",))
    assert result.message.startswith(
        "rank 2 on local-1 had not finished when torch aborted rank 0 on local-0: [Rank 0]"
    )
    ends = {rank: group.message for group in result.by_rank for rank in group.ranks}
    assert ends[0] == (
        "was killed by SIGABRT: [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"
    )
    assert result.diagnosis is not None
    assert result.diagnosis.states[2].startswith("is at wait_for_ever (test_it.py:")


def test_the_next_case_runs_in_good_health(report: Report) -> None:
    assert case(report, "test_good").outcome is Outcome.PASSED


def test_every_rank_is_said_to_do_what_it_did(report: Report) -> None:
    diagnosis = case(report, "test_a_group_of_some").diagnosis
    assert diagnosis is not None
    assert diagnosis.states[0].startswith("waits in all_reduce number 1 of the default group, at add (test_it.py:")
    assert diagnosis.states[1].startswith("is at wait_for_ever (test_it.py:")
    assert diagnosis.states[3].startswith("waits in all_reduce number 1 of group 1 (ranks 1, 3), at add")


def test_stacks_show_the_case_and_nothing_else(report: Report) -> None:
    stacks = case(report, "test_a_rank_never_comes").stacks
    assert set(stacks) == {0, 1, 2, 3}
    assert "in wait_for_ever" in stacks[1].splitlines()[1]
    assert all("watcher.py" not in text and "pluggy" not in text for text in stacks.values())


def test_a_rank_that_cannot_answer_shows_its_stack_all_the_same(report: Report) -> None:
    assert "in test_one_spins_in_c" in case(report, "test_one_spins_in_c").stacks[0]
    assert "in test_one_holds_the_interpreter" in case(report, "test_one_holds_the_interpreter").stacks[2]


def test_where_others_waited_for_a_rank_that_failed_is_reported_and_changes_no_blame(report: Report) -> None:
    result = case(report, "test_a_rank_fails_while_others_wait")
    assert (result.outcome, result.ranks) == (Outcome.FAILED, (1,))
    assert result.diagnosis is not None
    assert "ranks 0, 2, 3 wait in all_reduce number 2 of the default group" in result.diagnosis.summary


def test_whole_dumps_lie_in_the_directory_that_was_given(report: Report, gang: AgentGang) -> None:
    result = case(report, "test_a_rank_never_comes")
    assert result.diagnosis is not None
    folder = Path(result.diagnosis.artifacts)
    assert folder.is_relative_to(Path(gang.plan.artifacts) / "default" / "tried" / "attempt-1" / "mine")
    names = {file.name for file in folder.iterdir()}
    for rank in range(4):
        assert {f"rank-{rank}.stacks.txt", f"rank-{rank}.fr.json"} <= names
        assert "pytest_runtest_protocol" in (folder / f"rank-{rank}.stacks.txt").read_text(), "whole stacks"
        dumps = json.loads((folder / f"rank-{rank}.fr.json").read_text())
        assert any(entry["profiling_name"] == "gloo:all_reduce" for dump in dumps for entry in dump["entries"])
    environment = (folder / "node-0.environment.txt").read_text()
    assert "version of torch=" in environment
    assert "NCCL_DEBUG=WARN" in environment
    assert "secret-of-the-pod" not in environment


def test_c_frames_are_shown_where_they_can_be_had_and_else_it_is_said_once(report: Report, gang: AgentGang) -> None:
    result = case(report, "test_a_rank_never_comes")
    assert result.diagnosis is not None
    complaints = [line for line in gang.log if "shown without C frames" in line]
    assert len(complaints) <= gang.plan.nodes
    assert complaints or any("wait_for_ever (" in text for text in result.diagnosis.native.values())


def test_what_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan = make_plan(
        suite_of(tmp_path / "suite", SLEEPS), nodes=1, case_seconds=1, artifacts=str(tmp_path / "file" / "artifacts")
    )
    gang = AgentGang(plan, tmp_path)
    result = case(gang.run(), "test_hang")
    assert (result.outcome, result.ranks) == (Outcome.HUNG, (0, 1))
    assert sum("could not be written to" in line for line in gang.log) == 1


def test_nccl_is_asked_where_its_service_listens(tmp_path: Path) -> None:
    """Over gloo only because the variable says where."""
    plan = make_plan(suite_of(tmp_path / "suite", SLEEPS), nodes=1, ranks=1, case_seconds=1)
    gang = AgentGang(plan, tmp_path, environ={"NCCL_RAS_ADDR": f"127.0.0.1:{free_port()}"})
    diagnosis = case(gang.run(), "test_hang").diagnosis
    assert diagnosis is not None
    assert "did not answer" in diagnosis.ras


def test_a_hang_is_reported_soon_after_its_deadline() -> None:
    """The benchmark has the figure; this checks only its order of magnitude."""
    assert hang.after_deadline("time.sleep(1000)") < 3
