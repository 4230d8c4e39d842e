"""The oldest torch that is supported, in a separate environment in the cache. The tests themselves use the newest."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster.machine import cache
from tests.support.paths import ROOT
from tools import bootstrap

OLDEST = "2.7.0"
PACKAGES = Path(__file__).with_name("oldest_torch.txt")  # and the other packages that the runner needs, with hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """An interpreter with a torch."""

    name: str
    python: Path
    environ: Mapping[str, str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.soak)


@pytest.fixture(scope="session")
def oldest_python() -> Path:
    """Made with uv: 2.5 GB the first time, a look at a stamp from then on."""
    folder = cache.root() / "soak" / f"torch-{OLDEST}"
    python, stamp = folder / "bin" / "python", folder / "disttest-packages"
    wanted = PACKAGES.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        uv = bootstrap.uv()
        bootstrap.run("an environment", uv, "venv", "-q", "--clear", "--python", sys.executable, folder)
        install = (uv, "pip", "install", "-q", "--require-hashes", "--python", python)
        settings = bootstrap.uv_environment()
        bootstrap.run(f"installing torch {OLDEST}", *install, "-r", PACKAGES, environment=settings)
        stamp.write_text(wanted)
    return python


@pytest.fixture(scope="session", params=["oldest", "newest"])
def torch(request: pytest.FixtureRequest) -> Torch:
    if request.param == "newest":
        return Torch(name="newest", python=Path(sys.executable), environ={})
    path = os.pathsep.join([str(ROOT / "runner"), os.environ.get("PYTHONPATH", "")])
    python: Path = request.getfixturevalue("oldest_python")
    return Torch(name="oldest", python=python, environ={"PYTHONPATH": path})
