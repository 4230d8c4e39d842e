"""A gang whose Python has torch and nothing of the runner, which is in another directory."""

import os
import subprocess
from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from disttest_runner.inject import __main__
from tests.support.gangs import foreign_images
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

SUITE = """
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

import disttest_runner

RUNNER, IMAGE = Path({runner!r}), Path({image!r})

def test_the_runner_and_pytest_are_the_copied_ones():
    assert Path(disttest_runner.__file__).is_relative_to(RUNNER)
    assert Path(pytest.__file__).is_relative_to(RUNNER)

def test_torch_is_the_images():
    assert Path(sys.prefix) == IMAGE
    assert Path(torch.__file__).is_relative_to(IMAGE)
    assert Path(numpy.__file__).is_relative_to(IMAGE)

def test_processes_of_cases_find_both():
    subprocess.run([sys.executable, "-c", "import pytest, expecttest, numpy, mine"], check=True)

def test_py_spy_is_found():
    assert shutil.which("py-spy") == str(RUNNER / "bin/py-spy")

def test_a_failing_assertion_is_explained(gang):
    with pytest.raises(AssertionError, match="where 4 = Gang"):
        assert gang.world_size - 3 == 2

def test_together(process_group):
    torch.distributed.all_reduce(torch.ones(1))
"""


def path_without(program: str) -> str:
    """The image does not contain it; the tests' virtual environment, which may be on PATH, does."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not Path(folder, program).exists())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    python = foreign_images.venv_like_ours(directory)
    for module in ("pytest", "disttest_runner"):
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
        assert done.returncode == 1, f"the image has {module}, so nothing would be proven"
    return directory


def test_a_gang_runs_with_the_images_torch_and_the_copied_pytest(image: Path, tmp_path: Path) -> None:
    runner = tmp_path / "runner"
    __main__.copy(runner)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "mine.py").touch()
    suite = suite_of(tmp_path / "suite", SUITE.format(runner=str(runner), image=str(image)))
    gang = AgentGang(
        make_plan(SuitePlan(name="quick", builtin="collectives", select="barrier"), suite),
        tmp_path,
        python=image / "bin/python3",
        program=(str(runner),),
        environ={"PYTHONPATH": str(tmp_path / "modules"), "PATH": path_without("py-spy")},
    )
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert report.counts[Outcome.PASSED] == report.counts.total == 7
