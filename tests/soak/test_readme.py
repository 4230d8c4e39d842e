"""README, followed by an ordinary account: every command, in order, in a fresh clone with Debian's default limits."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.account import Account, ordinary_account
from tests.support.paths import ROOT

STRICT = "[pytest]\nfilterwarnings = error\n"  # of the folder that the clone is in; not meant for the clone
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)

SETTING_UP, DEMO, DEVELOP = "Quick start without a cluster", "Quick start on a local cluster", "Development"
READING = "Read results"
NOT_HERE = {"Install on a GPU cluster": "needs Docker, a registry and GPUs"}
NAMES = {
    "NAME": "cpu-smoke",
    "SERIES": "adhoc",  # of runs that name none
    "compare": "compare --exit-zero",  # that a case was slower in one of two runs is no failure of the command
}

COMMAND_SECONDS = 1800
TEST_SECONDS = 3600
BY_CTRL_C = {0, 130, -signal.SIGINT}  # make, too, gets the signal
HOLDS = "The cluster stays until Ctrl-C"
SETTING = re.compile(r"^  (export (?:KUBECONFIG|PATH)=.*)$", re.MULTILINE)  # for a second terminal


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of README and the heading that it is under."""

    title: str
    language: str
    text: str

    @property
    def commands(self) -> str:
        return "" if self.language else self.text


def blocks(readme: str) -> list[CodeBlock]:
    """All fenced blocks, in order."""
    titles = [(found.start(), found["title"]) for found in HEADING.finditer(readme)]
    return [
        CodeBlock(
            title=next((title for start, title in reversed(titles) if start < found.start()), ""),
            language=found["language"],
            text=found["text"],
        )
        for found in BLOCK.finditer(readme)
    ]


def scripts(title: str) -> list[str]:
    """The blocks of commands under a heading, each a script that ends at the first command that fails."""
    found = [block.commands for block in blocks((ROOT / "README.md").read_text()) if block.title == title]
    assert any(found), f"README has no commands under {title!r}"
    return [f"set -e\n{script}" for script in found if script]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAccount:
    """An account that has cloned the project below a folder with a strict pytest.ini."""

    account: Account
    clone: Path
    path: str  # what the commands of later blocks have as PATH

    def runs(self, script: str, *, seconds: float = COMMAND_SECONDS) -> str:
        """Run a script in the clone and return its output; fail with the end of it otherwise."""
        done = subprocess.run(
            self.command(script),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode} of\n{script}\n{done.stdout[-6000:]}"
        return done.stdout

    def command(self, script: str) -> list[str]:
        return self.account.command(f"cd {self.clone}\n{self.path}\n{script}")


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with ordinary_account(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture(scope="module", params=["first on PATH", "last on PATH"])
def reader(account: Account, request: pytest.FixtureRequest) -> Iterator[ReaderAccount]:
    folder = account.home / "projects"
    account.make_folder(folder)
    account.write(folder / "pytest.ini", STRICT)
    clone = folder / "disttest"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True, timeout=120)
    account.take(clone)
    own = f"{clone}/.venv/bin"
    path = f"export PATH={own}:$PATH" if request.param == "first on PATH" else f"export PATH=$PATH:{own}"
    yield ReaderAccount(account=account, clone=clone, path=path)
    account.run(f"rm -rf {folder}")


def test_suites_and_test_files_run_without_a_cluster(reader: ReaderAccount) -> None:
    example = next(block for block in blocks((ROOT / "README.md").read_text()) if block.language == "python")
    reader.account.write(reader.clone / "test_mine.py", example.text)
    outs = [reader.runs(script) for script in scripts(SETTING_UP)]
    assert all("Passed" in out for out in outs), outs


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDemo:
    """A demo whose cluster stays, and what it printed."""

    process: subprocess.Popen[str]
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def settings(self) -> list[str]:
        """What is to be typed in a second terminal first, once it is printed."""
        _, _, after = self.text.partition(HOLDS)
        return SETTING.findall(after)


@pytest.fixture
def demo(reader: ReaderAccount) -> Iterator[HeldDemo]:
    """README's demo up to the line that says that the cluster stays; ended by Ctrl-C, as README says."""
    process = subprocess.Popen(
        reader.command(scripts(DEMO)[0]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    holds = threading.Event()

    def read() -> None:
        for line in process.stdout or ():
            lines.append(line.rstrip("\n"))
            if held.settings and line.startswith("  TOKEN="):  # the line after them
                holds.set()
        holds.set()  # it ended

    held = HeldDemo(process=process, lines=lines)
    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        assert holds.wait(COMMAND_SECONDS), f"after {COMMAND_SECONDS} s:\n{held.text[-6000:]}"
        assert process.poll() is None, held.text[-6000:]
        yield held
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) in BY_CTRL_C, held.text[-3000:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        reading.join(60)
        assert not reading.is_alive(), "the demo has ended, and something that it started still has its output open"
        if process.stdout:
            process.stdout.close()


def test_results_of_the_demo_are_read_in_a_second_terminal(reader: ReaderAccount, demo: HeldDemo) -> None:
    setting = "\n".join(demo.settings)
    for script in (*scripts(DEMO)[1:], *scripts(READING)):
        out = reader.runs(f"{setting}\n{named(script)}")
        assert "Passed" in out, out


def named(script: str) -> str:
    """With the names of runs that the demo's cluster has."""
    for placeholder, name in NAMES.items():
        script = re.sub(rf"\b{placeholder}\b", name, script)
    return script


def test_checks_and_tests_pass(reader: ReaderAccount) -> None:
    for script in scripts(DEVELOP):
        reader.runs(script, seconds=TEST_SECONDS)


def test_every_command_of_readme_is_run_or_has_a_reason() -> None:
    titles = {block.title for block in blocks((ROOT / "README.md").read_text()) if block.commands}
    assert titles == {SETTING_UP, DEMO, READING, DEVELOP, *NOT_HERE}


def test_no_process_is_left(reader: ReaderAccount) -> None:
    if not reader.account.name:
        pytest.skip("processes of this account are also those of the tests: only root can create another one")
    left = reader.account.processes
    patience.wait_until("every process has ended", lambda: not left(), 60, details=lambda: "\n".join(left()))
