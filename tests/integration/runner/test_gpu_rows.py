"""The rows of `make gpu`, on the CPU over gloo: gangs, deadlines, table and exit codes work without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from disttest_contract.gang import suites
from disttest_runner.agent import accelerator
from tests.support import patience
from tests.support.gangs import pretended_gpus
from tests.support.gangs.gpu_table import NOT_ALL_PROVED, ROW_FAILED
from tests.support.paths import ROOT

FAILING = """
def pytest_collection_finish(session):
    session.items[0].module.FIRST = "def test_all_reduce(gang): assert gang.world_size == 3"
"""


def run(*options: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}", "tests/gpu"]
    return subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience.stretched(240),
        check=False,
    )


def results(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """Return the cells of each row by claim."""
    table = done.stdout.split("| --- |")[-1].splitlines()[1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("| ")]
    return {claim: rest for claim, *rest in cells}


def test_rows_pass_on_the_cpu_but_prove_nothing(tmp_path: Path) -> None:
    selected = "test_all_reduce or test_transport or test_never_joins or test_device_assert or test_crash"
    done = run("--backend", "gloo", "-k", selected, folder=tmp_path)
    found = results(done)
    assert done.returncode == NOT_ALL_PROVED, done.stdout
    passed = [claim for claim, (result, _, _) in found.items() if result == "passed on the CPU"]
    assert passed == [
        "An all_reduce of all ranks is right",
        "A rank that never joins a collective hangs its case; the next one passes",
        "A device-side assert fails its case and rank; the next case passes",
        "A killed rank crashes its case and is at fault; the next case passes",
    ]
    assert {result for result, _, _ in found.values()} == {"passed on the CPU", "not proved"}
    transport = found["The report names NCCL's transport"]
    assert transport[:2] == ["not proved", "`there is nothing to see on the CPU`"]
    assert [name for name in suites.BUILTIN if found[f"Suite {name} passes"][1] != "`it did not run`"] == []
    assert "make gpu: An all_reduce of all ranks is right (" in done.stderr


def test_a_row_that_fails_has_the_reason_and_its_own_exit_code(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    options = ("--backend", "gloo", "-k", "test_all_reduce", "-p", "failing")
    done = run(*options, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == ROW_FAILED, done.stdout
    result, details, _ = results(done)["An all_reduce of all ranks is right"]
    assert result == "**failed**"
    assert "mine: 1 of 1 cases failed; first test_it.py::test_all_reduce" in details


@pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="no C compiler here")
def test_gpus_that_do_not_work_fail_all_rows_with_their_error(tmp_path: Path) -> None:
    """They are chosen although nothing but a driver that finds no device is there."""
    pretended = pretended_gpus.build(tmp_path / "driver")
    done = run("-k", "test_preflight or test_crash or test_bandwidth", folder=tmp_path, **pretended.environ)
    assert done.returncode == ROW_FAILED, done.stdout
    found = {claim: details for claim, (result, details, _) in results(done).items() if result == "**failed**"}
    assert len(found) == 3
    assert all("CUDA cannot be initialized on local-0" in details for details in found.values()), found
    assert "- GPUs: `2 x pretended`" in done.stdout
    assert "- driver: `1.2.3 (CUDA 13.0)`" in done.stdout


def test_rows_without_time_are_not_proved(tmp_path: Path) -> None:
    done = run("--backend", "gloo", "--budget", "1", "-k", "test_suite", folder=tmp_path)
    assert done.returncode == NOT_ALL_PROVED, done.stdout
    result, details, _ = results(done)["Suite c10d-spawn passes"]
    assert (result, details) == ("not proved", "`the time of all rows was over before it could start`")


@pytest.mark.skipif(bool(accelerator.detect_devices().products), reason="this machine has GPUs")
def test_without_a_gpu_a_sentence_and_the_exit_code_say_that_nothing_was_proved(tmp_path: Path) -> None:
    done = run(folder=tmp_path)
    assert done.returncode == NOT_ALL_PROVED, done.stdout
    assert done.stdout.splitlines()[-1].startswith("Nothing was proved: torch finds no GPU on this machine")
