"""The version before this one, as the history of this repository has it: what people upgrade from.

Its manifests are applied, its operator and runner run in pods. They find the same third-party packages as we do.
"""

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.machine.settings import REPOSITORY, Image
from tests.support.gangs import foreign_images

COMMIT = "93b6c9c42f875424bcfb071c41aaaa067c1ca2d3"  # 0.1.0.dev0; once it is released: the tag of the last release
RUNNER_IMAGE = "disttest-runner:previous"
OPERATOR_IMAGE = "disttest-operator:previous"
PACKAGES = {
    "runner": ("disttest_contract", "disttest_runner"),
    "operator": ("disttest_operator",),
    "cli": ("disttest_cli",),
}
COMMAND = """\
#!{python}
import sys
from disttest_cli.main import main
sys.exit(main())
"""
# Its own table of manifests at the edge of what is allowed, in its own words.
RIGHT = """
import json
from tests.data.right_manifests import RIGHT
print(json.dumps({one.id: one.manifest for one in RIGHT}))
"""


@dataclass(frozen=True, slots=True)
class Previous:
    """A directory that is an image: a virtual environment with the source in it."""

    directory: Path

    @property
    def source(self) -> Path:
        return self.directory / "source"

    @property
    def manifests(self) -> Path:
        return self.source / "manifests"

    @property
    def version(self) -> str:
        project = tomllib.loads((self.source / "pyproject.toml").read_text())["project"]
        return str(project["version"])

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(Image(name=name, directory=str(self.directory), env={}) for name in (RUNNER_IMAGE, OPERATOR_IMAGE))

    def python(self, script: str) -> str:
        """What a script says that is run in its source."""
        command = [str(self.directory / "bin" / "python3"), "-c", script]
        return subprocess.run(command, cwd=self.source, text=True, capture_output=True, check=True).stdout

    def right_manifests(self) -> dict[str, dict[str, Any]]:
        """What its API took, by its own table."""
        manifests: dict[str, dict[str, Any]] = json.loads(self.python(RIGHT))
        return manifests


def make(directory: Path) -> Previous:
    """Fails where this clone has no such commit, or where another version would run."""
    previous = Previous(directory)
    python = foreign_images.venv_without_disttest(directory)
    previous.source.mkdir()
    _extract(previous.source)
    places = "\n".join(str(previous.source / folder) for folder in PACKAGES)
    (foreign_images.site_packages(directory) / "disttest.pth").write_text(places)
    _note_version(foreign_images.site_packages(directory), previous.version)
    command = directory / "bin" / "disttest"
    command.write_text(COMMAND.format(python=python))
    command.chmod(0o755)
    for folder, names in PACKAGES.items():
        for name in names:
            found = previous.python(f"import {name}; print({name}.__file__)").strip()
            assert Path(found).is_relative_to(previous.source / folder), f"{found} is not of the previous version"
    return previous


def _note_version(packages: Path, version: str) -> None:
    """As an installer does: the operator tells its version from there."""
    noted = packages / f"disttest-{version}.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: disttest\nVersion: {version}\n")


def _extract(directory: Path) -> None:
    git = ["git", "-C", str(REPOSITORY), "archive", "--format=tar", COMMIT]
    try:
        archive = subprocess.run(git, capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.fail("git is missing, which is asked for the previous version; Debian and Ubuntu: apt install git")
    except subprocess.CalledProcessError as error:
        pytest.fail(
            f"the previous version, {COMMIT}, is not in this clone, so no upgrade from it can be tested; "
            f"get the whole history with: git fetch --unshallow --tags ({error.stderr.decode().strip()})"
        )
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive, check=True)
