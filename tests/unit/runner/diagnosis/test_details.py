"""What agents look at once a hang is reported: py-spy, a directory. None of it may fail a run."""

import asyncio
import os
from pathlib import Path

import pytest

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from disttest_runner.diagnosis import hang_dumps
from disttest_runner.diagnosis.hang_dumps import (
    DIGEST_CHARACTERS,
    PySpy,
    artifacts_environment,
    artifacts_folder,
    write_artifacts,
)
from disttest_runner.leader import conductor


def program(folder: Path, script: str) -> str:
    file = folder / "py-spy"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def test_c_frames_are_kept_of_the_ranks_where_they_can_be_had(tmp_path: Path) -> None:
    spy = PySpy(program(tmp_path, 'test "$5" = 7 && echo "frames of $5" || exit 1'))
    assert asyncio.run(spy.dump({0: 7, 1: 8})) == {0: "frames of 7\n"}
    assert not spy.problem, "a rank that is gone says nothing about the others"


def test_a_refusal_is_remembered_and_reported(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    spy = PySpy(program(tmp_path, f"echo x >> {tried}; echo 'Permission Denied: try again' >&2; exit 1"))
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert "SYS_PTRACE" in spy.problem
    assert tried.read_text() == "x\n"


def test_a_py_spy_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_dumps, "SECONDS", 0.2)
    spy = PySpy(program(tmp_path, "exec sleep 1000"))
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert not spy.problem, "the next rank may be quicker"


def test_without_py_spy_that_is_said() -> None:
    spy = PySpy("")
    assert asyncio.run(spy.dump({0: 1})) == {}
    assert "not installed" in spy.problem


def plan(directory: str) -> RunPlan:
    return RunPlan(
        namespace="gpu-ci",
        name="nightly-x7k2",
        uid="u",
        series="",
        attempt=2,
        nodes=1,
        ranks_per_node=1,
        backend="gloo",
        spread=True,
        suites=(),
        rendezvous_seconds=1,
        case_seconds=1,
        run_seconds=1,
        artifacts=directory,
    )


def test_a_case_has_a_folder_of_its_own() -> None:
    folder = artifacts_folder(plan("/artifacts"), "mine", "test_it.py::test_x[a/b]")
    assert folder.parent == Path("/artifacts/gpu-ci/nightly-x7k2/attempt-2/mine")
    assert len(folder.name) == DIGEST_CHARACTERS
    assert folder != artifacts_folder(plan("/artifacts"), "mine", "test_it.py::test_x[a/c]")


def test_a_suite_s_name_cannot_lead_out_of_the_directory() -> None:
    folder = artifacts_folder(plan("/artifacts"), "../../etc", "x")
    assert folder.is_relative_to("/artifacts")
    assert ".." not in folder.parts


def test_files_are_written_whole(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    assert write_artifacts(place, {"rank-0.stacks.txt": "File ü\udcff"}) == ""
    assert (place / "rank-0.stacks.txt").read_text() == "File ü?"


def test_a_directory_that_takes_nothing_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "could not be written to" in write_artifacts(tmp_path / "file" / "x", {"a": "b"})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("/dev/full")
    assert "No space left" in write_artifacts(tmp_path, {"a": "b"})


def test_the_environment_is_shown_without_what_might_be_secret() -> None:
    environ = {"NCCL_DEBUG": "WARN", "HF_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "y", "OMP_NUM_THREADS": "1"}
    text = artifacts_environment(environ, {"torch": "2.13.0"}, "test_it.py::test_x", "node-a")
    assert text.splitlines() == [
        "case=test_it.py::test_x",
        "node=node-a",
        "version of torch=2.13.0",
        "NCCL_DEBUG=WARN",
        "OMP_NUM_THREADS=1",
    ]


def test_what_agents_found_later_is_added_to_the_result() -> None:
    result = CaseResult(id="x", outcome=Outcome.HUNG, seconds=1)
    details = [
        {"native": {"0": "frames"}, "ras": "", "artifacts": ""},
        {"native": {}, "ras": "all is well", "artifacts": "/artifacts/x"},
    ]
    diagnosis = conductor.with_details(result, details).diagnosis
    assert diagnosis is not None
    assert (diagnosis.native, diagnosis.ras, diagnosis.artifacts) == ({0: "frames"}, "all is well", "/artifacts/x")


def test_a_volume_that_hangs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_dumps, "WRITE_SECONDS", 0.2)
    pipe = tmp_path / "rank-0.stacks.txt"
    os.mkfifo(pipe)  # opening it for writing waits for a reader
    try:
        assert "did not accept the files within 0.2 s" in asyncio.run(hang_dumps._write(tmp_path, {pipe.name: "x"}))
    finally:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
