"""What is copied for images that have only torch, and what is said where that cannot work."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from disttest_contract.gang import environment
from disttest_contract.outcomes import ExitCode, Reason, Verdict
from disttest_contract.transport.termination_message import Summary
from disttest_runner.inject import __main__, injected
from disttest_runner.zygote.zygote_client import found_by_children
from tests.support import patience

PYTHON_36 = (3, 6)
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("volume") / "runner"
    __main__.copy(directory)
    return directory


@pytest.fixture
def start(copied: Path, tmp_path: Path) -> Start:
    """`python3 DIR` in an image in which these packages are installed, and nothing else of ours."""

    def start(*packages: str, **environ: str) -> subprocess.CompletedProcess[str]:
        for name in packages:
            (tmp_path / "image" / name).mkdir(parents=True)
            (tmp_path / "image" / name / "__init__.py").touch()
        own = {"PYTHONPATH": str(tmp_path / "image"), environment.TERMINATION_LOG: str(tmp_path / "log")}
        return run(str(copied), own | environ)

    return start


def run(*words: str | Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Without site-packages, and with the last word as the whole environment."""
    *arguments, environ = words
    assert isinstance(environ, Mapping)
    command = [sys.executable, "-S", *map(str, arguments)]
    return subprocess.run(
        command, env=dict(environ), capture_output=True, text=True, check=False, timeout=patience.stretched(60)
    )


def test_sources_are_copied_and_nothing_that_fits_one_python_only(copied: Path) -> None:
    names = {path.relative_to(copied).as_posix() for path in copied.rglob("*") if path.is_file()}
    wanted = {
        "__main__.py",
        "disttest_runner/agent/agent.py",
        "disttest_contract/gang/plan.py",
        "_pytest/python.py",
        "py.py",
    }
    assert wanted | {"disttest_runner/suites/collectives/correctness.py", "bin/py-spy"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".so", ".pth")) or "torch" in name.split("/")[0]]
    assert [name for name in names if name.startswith("bin/")] == ["bin/py-spy"]
    assert os.access(copied / "bin/py-spy", os.X_OK)


def test_everything_that_pytest_needs_is_copied() -> None:
    needed, seen = {"pytest"}, set[str]()
    while new := needed - seen:
        name = new.pop()
        seen.add(name)
        plain = [line for line in metadata.requires(name) or () if ";" not in line]
        needed |= {re.split(r"[<>=!~ \[]", line)[0].lower() for line in plain}
    assert seen <= set(__main__.DISTRIBUTIONS)


def test_half_a_copy_is_made_whole_by_another(tmp_path: Path) -> None:
    __main__.copy(tmp_path)
    (tmp_path / "__main__.py").write_text("half")
    (tmp_path / "pytest/__init__.py").unlink()
    again = __main__.copy(tmp_path)
    assert again == __main__.copy(tmp_path)
    assert (tmp_path / "__main__.py").read_text() == Path(injected.__file__).read_text()
    assert (tmp_path / "pytest/__init__.py").exists()


@pytest.mark.parametrize(
    ("place", "words"), [("/proc/none", "No such file"), ("/dev/null/x", "Not a directory")], ids=["absent", "file"]
)
def test_a_place_that_cannot_be_written_to_ends_with_a_sentence(place: str, words: str) -> None:
    command = [sys.executable, "-m", "disttest_runner.inject", place]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience.stretched(60))
    assert done.returncode == ExitCode.INFRASTRUCTURE
    assert done.stdout.startswith(f"the runner cannot be copied to {place}: {words}")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


def test_an_image_of_the_runner_that_lacks_a_part_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["inject", str(tmp_path)])
    monkeypatch.setattr(__main__, "DISTRIBUTIONS", ("no-such-distribution",))
    assert __main__.main() == ExitCode.CONFIGURATION
    assert "no-such-distribution. Use a runner image" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("fast/_fast.cpython-311-x86_64-linux-gnu.so,,\n", "has native code for this version of Python only"),
        ("", "does not list its files"),  # as packages of Linux distributions
    ],
    ids=["machine code", "no list"],
)
def test_what_cannot_be_taken_along_whole_is_refused(tmp_path: Path, record: str, words: str) -> None:
    info = tmp_path / "fast-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: fast\nVersion: 1\n")
    (info / "RECORD").write_text(record)
    with pytest.raises(__main__.UnfitError, match=f"fast {words}"):
        list(__main__.of_distribution(metadata.Distribution.at(info)))


def test_the_start_can_be_read_by_old_pythons() -> None:
    ast.parse(Path(injected.__file__).read_text(), feature_version=PYTHON_36)


def test_an_old_python_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 8, 10, "final", 0))
    assert injected.problem().startswith("the image has Python 3.8 (")
    assert injected.problem().endswith("the runner requires 3.11 or newer. Use an image with a newer Python")


@pytest.mark.parametrize(("packages", "missing"), [((), "torch"), (("torch",), "numpy")], ids=["torch", "numpy"])
def test_an_image_without_them_is_refused_where_the_operator_looks(
    start: Start, tmp_path: Path, packages: tuple[str, ...], missing: str
) -> None:
    done = start(*packages, **{environment.PLAN: json.dumps({"uid": "u", "attempt": 2}), environment.NODE_INDEX: "3"})
    assert done.returncode == ExitCode.CONFIGURATION
    summary = Summary.read((tmp_path / "log").read_text())
    assert summary is not None
    assert (summary.verdict, summary.reason) == (Verdict.ERRORED, Reason.CONTAINER_START_ERROR)
    assert (summary.uid, summary.attempt, summary.node_index) == ("u", 2, 3)
    assert summary.message.endswith(f"has no {missing}. Use an image with torch and numpy")
    assert done.stdout == f"Errored (ContainerStartError): {summary.message}\n"


def test_no_termination_message_is_no_reason_to_say_nothing(start: Start) -> None:
    done = start(**{environment.TERMINATION_LOG: "/proc/none"})
    assert done.returncode == ExitCode.CONFIGURATION
    assert "has no torch" in done.stdout
    assert "cannot be written to /proc/none: No such file or directory" in done.stdout


def test_where_all_is_there_the_runner_starts(start: Start, tmp_path: Path) -> None:
    """As far as it gets without a plan."""
    done = start("torch", "numpy")
    assert done.returncode == ExitCode.CONFIGURATION
    assert "environment variable DISTTEST_PLAN is missing" in done.stdout
    summary = Summary.read((tmp_path / "log").read_text())
    assert summary is not None
    assert summary.reason is Reason.RUNNER_ERROR


def test_processes_of_the_runner_find_pytest_beside_it(copied: Path) -> None:
    done = run("-c", "import pytest; print(pytest.__file__)", {"PYTHONPATH": str(copied)})
    assert done.stdout.strip() == str(copied / "pytest/__init__.py"), done.stderr


@pytest.mark.parametrize(
    ("own", "path", "wanted"),
    [
        ({"A": "1"}, "/runner:/image", {"A": "1"}),
        ({"PYTHONPATH": "/suite"}, "/runner:/image", {"PYTHONPATH": "/runner:/suite"}),
        ({"PYTHONPATH": "/suite"}, "/image", {"PYTHONPATH": "/suite"}),
    ],
    ids=["no path", "injected", "installed"],
)
def test_a_suites_path_does_not_hide_the_runner(own: dict[str, str], path: str, wanted: dict[str, str]) -> None:
    assert found_by_children(own, path, Path("/runner")) == wanted
