"""A module is adapted when it is imported, whatever other import hooks there are."""

import subprocess
import sys
from pathlib import Path

from tests.support import patience

# What a rank does: callbacks first, then pytest, whose own hook rewrites modules that are named as tests are.
RANK = """
import sys
import pytest
from disttest_runner.upstream.install import ImportOrder, when_imported
when_imported("some_test", lambda module: setattr(module, "IS_ADAPTED", True))
sys.exit(pytest.main(["-p", "no:cacheprovider", "-c", "/dev/null", "test_it.py"], plugins=[ImportOrder()]))
"""
CASE = """
import some_test

def test_it():
    assert some_test.IS_ADAPTED
"""


def test_a_module_that_pytest_takes_for_a_test_file_is_adapted(tmp_path: Path) -> None:
    (tmp_path / "some_test.py").write_text("IS_ADAPTED = False\n")
    (tmp_path / "test_it.py").write_text(CASE)
    done = subprocess.run(
        [sys.executable, "-c", RANK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience.stretched(60),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
