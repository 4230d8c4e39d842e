"""Images that are not the runner's: directories of this machine, as process nodes take them."""

import shlex
import sys
import sysconfig
import venv
from collections.abc import Collection
from pathlib import Path

from devcluster.machine.settings import Image
from disttest_runner.inject import __main__

TORCH_ONLY = "torch-only:dev"  # neither pytest nor the runner
OLD_PYTHON = "old-python:dev"
NO_PYTHON = "no-python:dev"

OLD = """#!/bin/sh
exec {python} -c '
import runpy, sys
sys.version_info = (3, 8, 10, "final", 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
' "$@"
"""


def make(directory: Path) -> tuple[Image, ...]:
    """One that can run the runner, and two that cannot."""
    venv_like_ours(directory / "torch-only")
    old = directory / "old-python" / "bin" / "python3"
    old.parent.mkdir(parents=True)
    old.write_text(OLD.format(python=shlex.quote(sys.executable)))
    old.chmod(0o755)
    nothing = directory / "no-python"
    nothing.mkdir()
    return (
        Image(name=TORCH_ONLY, directory=str(directory / "torch-only"), env={}),
        Image(name=OLD_PYTHON, directory=str(directory / "old-python"), env={}),
        Image(name=NO_PYTHON, directory=str(nothing), env={"PATH": f"{nothing}/bin"}),
    )


def venv_like_ours(directory: Path) -> Path:
    """With what is installed here but for the runner and what it brings along; gives its interpreter."""
    brought = {place.parts[0] for _, place in __main__.files_to_copy()} | {"pytest.py"}
    return venv_without_disttest(directory, but=brought)


def venv_without_disttest(directory: Path, *, but: Collection[str] = ()) -> Path:
    """With what else is installed here, but for these entries of site-packages; gives its interpreter."""
    venv.create(directory, symlinks=True, with_pip=False)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name not in but and "disttest" not in entry.name:
            (site_packages(directory) / entry.name).symlink_to(entry)
    return directory / "bin" / "python3"


def site_packages(directory: Path) -> Path:
    """Of a venv."""
    [packages] = directory.glob("lib/python3*/site-packages")
    return packages
