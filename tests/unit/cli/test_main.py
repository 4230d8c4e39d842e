"""One command line for installations that have different parts."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from disttest_cli.main import COMMANDS, main
from tests.support import patience
from tests.support.builders.runs import a_report

LARGE = {"asyncio", "disttest_runner", "jinja2", "kubernetes", "rich.console", "torch", "urllib3", "yaml"}
PROGRAM = """
import sys
from disttest_cli.main import main
sys.modules.update(dict.fromkeys({absent!r}))
codes = []
for arguments in {lines!r}:
    try:
        codes.append(int(main(arguments)))
    except SystemExit as end:
        codes.append(end.code)
imported = {{name for name, module in sys.modules.items() if module and "Lazy" not in type(module).__name__}}
print(codes if len(codes) > 1 else codes[0], *sorted({large!r} & imported))
"""


def ended(*arguments: str, absent: tuple[str, ...] = ()) -> tuple[str, str]:
    """Exit code and which of the large packages were imported, and the errors; in a process without `absent`."""
    return ended_all(list(arguments), absent=absent)


def ended_all(*lines: list[str], absent: tuple[str, ...] = ()) -> tuple[str, str]:
    """The same of several command lines, one after the other."""
    program = PROGRAM.format(absent=absent, lines=lines, large=LARGE)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=patience.stretched(60)
    )
    return done.stdout.splitlines()[-1], done.stderr


def test_a_module_is_imported_when_something_of_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("print('imported')\nword = 'used'\n")
    program = "from disttest_cli import lazy; slow = lazy.module('slow'); print('before'); print(slow.word)"
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.split() == ["before", "imported", "used"]


def test_help_and_wrong_arguments_import_no_large_package() -> None:
    """In one process for all: `plan` and `doctor` read the operator's flags, `run` detects GPUs."""
    names = [name for name in COMMANDS if name not in {"run", "plan", "doctor"}]
    lines = [["--help"], ["nonsense"], *([name, argument] for name in names for argument in ("--help", "--wrong"))]
    assert ended_all(*lines)[0] == f"{[0, 2, *([0, 2] * len(names))]}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "--help"], "0 disttest_runner"),
        (["run", "--suite", "colectives"], "2 disttest_runner"),
        (["plan", "-f", "manifests/samples/cpu-smoke.yaml"], "0 yaml"),
        (["list", "--kubeconfig", "absent"], "2"),
        (["report", "-f", "absent.json"], "2"),
        (["report", "-f", "REPORT"], "0"),
        (["compare", "REPORT", "REPORT"], "0 rich.console"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], expected: str, tmp_path: Path) -> None:
    report = tmp_path / "a.json"
    report.write_bytes(a_report().dumps())
    shown, _ = ended(*(str(report) if one == "REPORT" else one for one in arguments))
    assert shown == expected


@pytest.mark.parametrize(
    ("command", "absent", "extra"),
    [("run", "disttest_runner", "runner"), ("run", "torch", "runner"), ("apply", "urllib3", "cli")],
)
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(command: str, absent: str, extra: str) -> None:
    _, error = ended(command, "-f", "run.yaml", absent=(absent,))
    assert error == (
        f"disttest: `disttest {command}` needs the Python package {absent!r}, which is not installed. "
        f"Install disttest[{extra}], or use an image that contains it.\n"
    )


def test_who_stops_reading_ends_the_command_as_a_shell_expects(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_bytes(a_report().dumps())
    read, write = os.pipe()
    os.close(read)
    arguments = ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    with os.fdopen(write, "wb", buffering=0) as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "disttest_cli.main", *arguments],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
            timeout=patience.stretched(60),
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"disttest {metadata.version('disttest')}\n"
