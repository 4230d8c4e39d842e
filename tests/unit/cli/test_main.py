"""One command line for installations that have different parts."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from disttest_cli.main import main
from tests.support import patience
from tests.support.runs import a_report

PROGRAM = """
import sys
from disttest_cli.main import main
sys.modules.update(dict.fromkeys({absent!r}))
try:
    code = main({arguments!r})
except SystemExit as end:
    code = end.code
imported = {{name for name, module in sys.modules.items() if module}}
print(code, *sorted({{"torch", "kubernetes", "urllib3", "disttest_runner"}} & imported))
"""


def ended(*arguments: str, absent: tuple[str, ...] = ()) -> tuple[str, str]:
    """Exit code and which of the large packages were imported, and the errors; in a process without `absent`."""
    program = PROGRAM.format(absent=absent, arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=patience.stretched(60)
    )
    return done.stdout.splitlines()[-1], done.stderr


def test_help_needs_neither_torch_nor_a_client() -> None:
    assert ended("--help") == ("0", "")


@pytest.mark.parametrize(
    ("command", "imported"),
    [("run", "0 disttest_runner"), ("apply", "0 urllib3"), ("report", "0"), ("compare", "0")],
    ids=["run", "apply", "report", "compare"],
)
def test_a_command_imports_only_what_it_needs_itself(command: str, imported: str) -> None:
    assert ended(command, "--help") == (imported, "")


@pytest.mark.parametrize(
    ("command", "absent", "extra"),
    [("run", "disttest_runner", "runner"), ("run", "torch", "runner"), ("apply", "urllib3", "cli")],
)
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(command: str, absent: str, extra: str) -> None:
    _, error = ended(command, "-f", "run.yaml", absent=(absent,))
    assert error == (
        f"disttest: `disttest {command}` needs the Python package {absent!r}, which is not here: "
        f"install disttest[{extra}], or use the image that has it\n"
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
