"""NCCL's log goes to a file for each rank. What explains a bad end is quoted in the rank's output and the report."""

from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from tests.support.gangs import nccl_writer
from tests.support.gangs.gang import AgentGang, case, make_plan, suite_of

WARNING = "node-1:7:9 [1] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer"
SUITE = f"""
import os, signal, time
from tests.support.gangs.nccl_writer import write

WARNING = {WARNING!r}

def test_good(process_group):
    write("node-1:7:9 [0] NCCL INFO a line of no interest")

def test_warns(gang):
    if gang.rank == 2:
        write(WARNING + " while all is well")

def test_fails(gang):
    if gang.rank == 1:
        write(WARNING + " in test_fails")
        write("node-1:7:9 [0] NCCL INFO transport/net.cc:304 -> 6")
        raise RuntimeError("NCCL error")

def test_crashes(gang):
    if gang.rank == 3:
        write(WARNING + " in test_crashes")
        os.kill(os.getpid(), signal.SIGKILL)

def test_hangs(gang):
    if gang.rank == 0:
        write(WARNING + " in test_hangs")
        time.sleep(1000)

def test_a_process_of_a_rank_has_its_own_file(gang):
    if os.fork() == 0:
        write("node-1:8:8 [0] NCCL INFO of the child")
        os._exit(0)
    os.wait()

def test_floods(gang):
    for _ in range(20_000):
        write("node-1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nccl-logs")


@pytest.fixture(scope="module")
def gang(folder: Path) -> AgentGang:
    excerpts = folder / "excerpts"
    excerpts.mkdir()
    (excerpts / "all.log").write_text("node-1:7:9 [0] NCCL INFO Using network IB\n")
    plan = make_plan(
        suite_of(folder / "suite", SUITE),
        backend=nccl_writer.BACKEND,
        case_seconds=3,
        artifacts=str(folder / "artifacts"),
    )
    scratch = folder / "scratch 100%"
    scratch.mkdir()
    environ = nccl_writer.environment(folder / "hook", excerpts) | {"TMPDIR": str(scratch)}
    return AgentGang(plan, folder, environ=environ)


@pytest.fixture(scope="module")
def report(gang: AgentGang) -> Report:
    return gang.run()


def lines(gang: AgentGang, text: str) -> list[str]:
    return [line for line in gang.log if text in line and line.startswith("[rank ")]


def test_lines_that_explain_nothing_are_not_in_the_output(gang: AgentGang, report: Report) -> None:
    assert case(report, "test_good").outcome is Outcome.PASSED
    assert {line.partition("]")[0] for line in lines(gang, "of no interest")} == {"[rank 1"}  # quoted when it fails
    assert lines(gang, "via P2P") == []


def test_a_warning_is_in_the_output_of_its_rank_once_for_the_rules_on_hardware(gang: AgentGang, report: Report) -> None:
    assert case(report, "test_warns").outcome is Outcome.PASSED
    assert lines(gang, "while all is well") == [f"[rank 2] {WARNING} while all is well"]


@pytest.mark.parametrize(
    ("name", "rank", "outcome"),
    [
        ("test_fails", 1, Outcome.FAILED),
        ("test_crashes", 3, Outcome.CRASHED),
        ("test_hangs", 0, Outcome.HUNG),
    ],
)
def test_the_end_of_the_log_is_quoted(gang: AgentGang, report: Report, name: str, rank: int, outcome: Outcome) -> None:
    result = case(report, name)
    assert result.outcome is outcome
    assert f"{WARNING} in {name}" in result.logs[rank]
    assert lines(gang, f"in {name}") == [f"[rank {rank}] {WARNING} in {name}"]


def test_what_led_to_the_warning_is_quoted_as_well(gang: AgentGang, report: Report) -> None:
    assert "transport/net.cc:304 -> 6" in case(report, "test_fails").logs[1]
    assert len(lines(gang, "The end of NCCL's log")) == 1
    assert lines(gang, "transport/net.cc:304") == ["[rank 1] node-1:7:9 [0] NCCL INFO transport/net.cc:304 -> 6"]


def test_the_files_are_kept_with_the_artifacts_and_removed_elsewhere(folder: Path, report: Report) -> None:
    assert report.generations == 4
    kept = folder / "artifacts" / "default" / "tried" / "attempt-1" / "nccl"
    first = [file.read_text() for file in kept.glob("generation-1.rank-1.process-*.log")]
    assert len(first) == 1
    assert first[0].startswith("node-1:7:9 [0] NCCL INFO Using network IB\n")
    assert "in test_fails" in first[0]
    last = [file.read_text() for file in kept.glob("generation-4.rank-0.process-*.log")]
    assert "node-1:8:8 [0] NCCL INFO of the child\n" in last
    assert list((folder / "scratch 100%").glob("disttest-nccl-*")) == []


def test_a_file_or_level_of_the_user_wins(tmp_path: Path) -> None:
    mine = tmp_path / "mine.log"
    environ = nccl_writer.environment(tmp_path / "hook") | {"NCCL_DEBUG_FILE": str(mine), "NCCL_DEBUG": "TRACE"}
    source = """
import os
from tests.support.gangs.nccl_writer import write

def test_good(gang):
    assert (os.environ["NCCL_DEBUG"], os.environ.get("NCCL_DEBUG_SUBSYS")) == ("TRACE", None)
    write("a line")
"""
    plan = make_plan(suite_of(tmp_path / "suite", source), nodes=1, backend=nccl_writer.BACKEND)
    gang = AgentGang(plan, tmp_path, environ=environ)
    assert gang.run().verdict == "Passed"
    assert mine.read_text() == "a line\na line\n"
    assert "NCCL_DEBUG=TRACE is set. DistTest's value is INFO." in gang.text
