import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def bootstrap(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "bootstrap.py"), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_unknown_step_is_one_line_and_exit_code_2() -> None:
    done = bootstrap("nonsense")
    assert done.returncode == 2
    assert done.stderr == "setup: unknown step 'nonsense'; known: venv, unit, monitoring, all\n"


def test_a_set_up_environment_is_left_alone() -> None:
    done = bootstrap("venv")
    if "installing" in done.stdout:
        pytest.fail("the environment that runs this test was set up by other means than bootstrap.py")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_constraints_name_no_host() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
