"""`disttest run` without a file: suites and test files by name, cases, repetitions, and what a terminal shows."""

import contextlib
import os
import pty
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from disttest_contract.gang.suites import BUILTIN
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.gangs import pretended_gpus
from tests.support.gangs.gang import MARK, marked, wait_for

# Of the operator and the other commands: what `disttest run` needs is in the extra `runner`.
OTHERS = ("kubernetes", "kopf", "aiohttp", "prometheus_client", "urllib3", "msgspec", "jsonschema", "cryptography")
WITHOUT_OTHERS = f"import sys\nsys.modules.update(dict.fromkeys({OTHERS!r}))\n"

HELPER = "def world(): return 2\n"
MINE = """
import os, pathlib, pytest, torch
import torch.distributed as dist
from helper import world

@pytest.fixture(scope="module")
def seen(): return []

def test_sum(gang, process_group):
    with pytest.raises(ImportError):
        import kubernetes
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == gang.world_size == world()

@pytest.mark.parametrize("size", [1, 2])
def test_group(gang, process_group, size, seen):
    seen.append(size)
    assert len(seen) == 1, "fixtures of a module are created again for each repetition"
    group = dist.new_group()
    dist.all_reduce(torch.ones(size), group=group)
    pathlib.Path(f"pids-{gang.rank}").open("a").write(f"{os.getpid()}\\n")
"""

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT_OTHERS)
    return {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "without"),
        MARK: secrets.token_hex(8),
        "HOME": str(tmp_path),
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "disttest_cli.main", "run", *arguments]


@pytest.fixture
def run(tmp_path: Path, environ: dict[str, str]) -> Run:
    """`disttest run` in a separate folder, without packages that it does not need."""

    def _run(*arguments: str, **more: str) -> tuple[int, str]:
        done = subprocess.run(
            command(*arguments),
            cwd=tmp_path,
            env=environ | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=patience.stretched(120),
            check=False,
        )
        return done.returncode, done.stdout

    return _run


def write(tmp_path: Path, **sources: str) -> None:
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)


def report(tmp_path: Path, name: str) -> Report:
    return Report.loads((tmp_path / f"disttest-report-{name}.json").read_bytes())


def endings(tmp_path: Path, name: str) -> dict[str, Outcome]:
    [suite] = report(tmp_path, name).suites
    return {case.id: case.outcome for case in suite.cases}


def test_chosen_cases_of_a_file_run_again_and_again_in_the_same_ranks(run: Run, tmp_path: Path) -> None:
    write(tmp_path, helper=HELPER, test_mine=MINE, test_other="import no_such_module\n")
    case, fixed = "test_mine.py::test_group[2]", "test_mine.py::test_sum"
    code, output = run("test_mine.py", "--case", case, "--case", fixed, "--repeat=3")
    assert code == 0, output
    assert output.startswith("test-mine: 2 ranks on the CPU with gloo: this machine has no GPU\n")
    assert "DISTTEST-PROGRESS" not in output
    assert list(endings(tmp_path, "test-mine")) == [
        *(fixed, case),
        *(f"{fixed}#2", f"{case}#2"),
        *(f"{fixed}#3", f"{case}#3"),
    ]
    assert "in 3 repetitions of 2 cases: 6 of 6 cases passed" in output
    pids = [(tmp_path / f"pids-{rank}").read_text().split() for rank in range(2)]
    assert [(len(one), len(set(one))) for one in pids] == [(3, 1), (3, 1)], "ranks are not restarted"


UNTIL = """
import os, pathlib

def count(gang):
    mark = pathlib.Path(f"turns-{gang.rank}")
    turns = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("x" * (turns + 1))
    return turns + 1

def test_first(gang):
    if count(gang) == 2 and gang.rank == 0:
        os._exit(7)
def test_second(): pass
"""


def test_repetition_ends_with_the_first_bad_case_which_is_not_tried_again(run: Run, tmp_path: Path) -> None:
    write(tmp_path, test_it=UNTIL)
    code, output = run("test_it.py", "--until-fail", "--nodes=2")
    assert code == 10, output
    first, second = "test_it.py::test_first", "test_it.py::test_second"
    assert endings(tmp_path, "test-it") == {
        first: Outcome.PASSED,
        second: Outcome.PASSED,
        f"{first}#2": Outcome.CRASHED,
        f"{second}#2": Outcome.NOT_RUN,
    }
    assert "in 2 repetitions of 2 cases: 1 of 4 cases failed" in output


@pytest.mark.soak
def test_repetitions_continue_after_a_failure_in_new_ranks(run: Run, tmp_path: Path) -> None:
    write(tmp_path, test_it=UNTIL)
    code, output = run(".", "--repeat=3", "--report=all.json")
    assert code == 10, output
    [suite] = Report.loads((tmp_path / "all.json").read_bytes()).suites
    assert [case.outcome for case in suite.cases].count(Outcome.PASSED) == 5
    assert "ranks restarted 1 time" in output


def test_a_case_that_does_not_exist_is_an_error_that_names_those_that_are_near(run: Run, tmp_path: Path) -> None:
    write(tmp_path, test_it="def test_first(): pass\ndef test_second(): pass\n")
    code, output = run("test_it.py", "--case=test_it.py::test_frist")
    assert code == 30, output
    verdict, advice, _ = output.strip().splitlines()[-3:]
    assert verdict.startswith("Errored (CollectionFailed): test-it: collecting failed on ranks 0, 1 on local-0: ")
    assert "no case test_it.py::test_frist: did you mean test_it.py::test_first or" in verdict
    assert advice.startswith("To do: Fix the import error or the case ID in the message.")


def test_a_built_in_suite_by_its_name(run: Run, tmp_path: Path) -> None:
    code, output = run("--suite=collectives", "--ranks=4", "--nodes=2", "--backend=gloo", "-k", "test_barrier")
    assert code == 0, output
    assert output.startswith("collectives: 4 ranks on 2 nodes on the CPU with gloo: --backend gloo\n")
    found = report(tmp_path, "collectives")
    assert (found.nodes, found.ranks_per_node, found.counts.total) == (2, 2, 1)


@pytest.mark.soak
def test_repetition_without_a_failure_is_green_after_its_time(run: Run, tmp_path: Path) -> None:
    write(tmp_path, test_it="import time\ndef test_a(): time.sleep(0.5)\n")
    code, output = run("test_it.py", "--until-fail", "--timeout=40")
    assert code == 0, output
    assert re.search(r"Passed after [\d.]+ s, in \d+ repetitions of 1 case: ", output)


def test_nothing_to_run_names_every_suite(run: Run) -> None:
    code, output = run()
    assert code == 2
    assert output.startswith("disttest: nothing to run. Use --suite NAME, a PATH with test files, or -f FILE")
    assert len(output.splitlines()) == 1
    assert all(name in output for name in BUILTIN)


@pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="needs a C compiler to make GPUs that are not there")
def test_more_ranks_than_gpus_are_an_error_that_names_both_ways(run: Run, tmp_path: Path) -> None:
    pretended = pretended_gpus.build(tmp_path / "gpus")
    code, output = run("--suite=collectives", "--ranks=3", **pretended.environ)
    assert code == 2
    assert output.startswith(
        "disttest: NCCL needs one GPU per rank (3 ranks), but this machine has 2 GPUs. Use --ranks 2, or"
    )
    assert output.count("\n") == 1


LIMITED = """
apiVersion: disttest.dev/v1alpha1
kind: DistTest
metadata: {name: limited}
spec:
  nodes: 1
  gpusPerNode: 2
  env: [{name: CUDA_VISIBLE_DEVICES, value: "1"}]
  suites: [{name: collectives}]
"""


@pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="needs a C compiler to make GPUs that are not there")
def test_env_of_a_file_limits_the_gpus_that_count(run: Run, tmp_path: Path) -> None:
    pretended = pretended_gpus.build(tmp_path / "gpus")
    (tmp_path / "limited.yaml").write_text(LIMITED)
    code, output = run("-f", "limited.yaml", **pretended.environ)
    assert code == 2, output
    assert "NCCL needs one GPU per rank (2 ranks), but this machine has 1" in output


CONFIGURED = """
[tool.pytest.ini_options]
addopts = "-ra -q --tb=short --numprocesses=4"
markers = ["mine: a marker of the folder"]
"""
MARKED = """
import pytest

@pytest.mark.mine
def test_marked(pytestconfig):
    assert any(line.startswith("mine:") for line in pytestconfig.getini("markers"))
"""


def test_a_folders_configuration_holds_but_for_options_of_a_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(CONFIGURED)
    (tmp_path / "test_it.py").write_text(MARKED)
    code, text = run("test_it.py", "--ranks", "1")
    assert code == 0, text


SLEEPING = """
import time
def test_bad(gang): assert gang.rank != 1, "\\x1b[2Jgone"
def test_loud(): print("\\x1b[2Jnoise")
def test_asleep(): time.sleep(1000)
"""


class Terminal:
    """One that a program writes to. Colours and keys of a plain xterm."""

    def __init__(self, arguments: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            arguments,
            cwd=folder,
            env={**environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.text = ""
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        with contextlib.suppress(OSError):  # raised by Linux when no process has it open
            while chunk := os.read(descriptor, 1 << 16):
                self.text += chunk.decode(errors="replace")
        os.close(descriptor)

    def wait(self) -> int:
        code = self.process.wait(patience.stretched(60))
        self._reader.join(5)
        return code


def test_a_terminal_shows_how_far_the_run_is_and_is_left_as_it_was(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, test_it=SLEEPING)
    terminal = Terminal(command("test_it.py"), tmp_path, environ)
    wait_for(lambda: "test_it.py::test_asleep" in terminal.text, "no case in flight", 60, lambda: terminal.text)
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == 20
    text = terminal.text
    assert "2/3 cases · 1 passed · 1 failed" in text
    assert "failed\x1b[0m test-it: test_it.py::test_bad (rank 1 on local-0): AssertionError: \\x1b[2Jgone" in text
    assert "noise" not in text, "what ranks write is shown with --verbose"
    assert "\x1b[2J" not in text
    assert "DISTTEST" not in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1, "the cursor is there again"
    assert "InfraFailed (Terminated)" in text
    assert "HTML page: disttest report -f disttest-report-test-it.json -o html=report.html" in text
    found = report(tmp_path, "test-it")
    assert (found.verdict, found.reason) == (Verdict.INFRA_FAILED, Reason.TERMINATED)
    wait_for(lambda: not marked(environ[MARK]), "processes left", 3)
