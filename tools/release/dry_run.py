"""A release as it would be, tried as a user tries it; nothing of it stays."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from zipfile import ZipFile

from tools import bootstrap
from tools.release import build, commit, version
from tools.release.commit import ReleaseError
from tools.release.version import ReleaseImages

Say = Callable[[str], None]
# What the wheel must be able to do without this clone: code, templates and schemas are in it.
TRIES: tuple[tuple[Sequence[str], str], ...] = (
    (("--version",), "disttest "),
    (("report", "--schema"), '"$schema"'),
    (("plan", "-f", "{source}/manifests/samples/cpu-smoke.yaml"), "kind: Job"),
)
PACKAGES = ("runner/disttest_contract", "runner/disttest_runner", "operator/disttest_operator", "cli/disttest_cli")


def rehearse(say: Say) -> None:
    """Build the commit twice, compare, and install the wheel where nothing else is."""
    made_of = commit.current()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = commit.export(made_of, folder / "source")
        other = commit.export(made_of, folder / "elsewhere" / "source")
        named = version.of((source / "pyproject.toml").read_text())
        if problems := build.inconsistent(source, named):
            raise ReleaseError("; ".join(problems))
        text = _notes((source / "CHANGELOG.md").read_text(), named)
        images = ReleaseImages(version=named)
        for attempt, place in (("first", source), ("second", other)):
            (folder / attempt).mkdir()
            build.build(place, made_of, images, text, folder / attempt)
            say(f"{attempt} build: {len(list((folder / attempt).iterdir()))} files of {made_of.name[:12]}")
        if differing := different(folder / "first", folder / "second"):
            raise ReleaseError(f"the same commit gives other bytes the second time: {', '.join(differing)}")
        say("both are the same, byte by byte")
        _try(folder, source, say)
    if made_of.changes:
        say(f"not in it: {len(made_of.changes)} changed files of the clone")


def different(one: Path, other: Path) -> list[str]:
    names = {file.name for folder in (one, other) for file in folder.iterdir()}
    return sorted(name for name in names if _content(one / name) != _content(other / name))


def wrong_content(wheel: Iterable[str], source: Path) -> list[str]:
    """What of our packages is not in a wheel, or is in it and not of our packages."""
    ours = {
        str(file.relative_to(source / package.partition("/")[0]))
        for package in PACKAGES
        for file in (source / package).rglob("*")
        if file.is_file()
    }
    return sorted(ours ^ {name for name in wheel if ".dist-info/" not in name})


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _notes(changelog: str, named: str) -> str:
    """Before the chapter of a version is written, it is what is not released yet."""
    return version.notes_of(changelog, named if f"\n## {named} " in changelog else version.UNRELEASED)


def _try(folder: Path, source: Path, say: Say) -> None:
    first, environment = folder / "first", folder / "environment"
    (wheel,) = first.glob("*.whl")
    with ZipFile(wheel) as archive:
        if wrong := wrong_content(archive.namelist(), source):
            raise ReleaseError(f"the wheel does not hold exactly the packages: {', '.join(wrong[:9])}")
    uv, python = str(bootstrap.uv()), str(environment / "bin/python")
    subprocess.run(["sha256sum", "--check", "--quiet", build.SUMS], cwd=first, check=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    install = (uv, "pip", "install", "--require-hashes", "-q", "--python", python)
    environ = os.environ | bootstrap.uv_environment()
    subprocess.run([*install, "-r", str(first / "requirements-cli.txt")], check=True, env=environ)
    subprocess.run([uv, "pip", "install", "--offline", "-q", "--python", python, "--no-deps", str(wheel)], check=True)
    for words, wanted in TRIES:
        arguments = [word.format(source=source) for word in words]
        done = subprocess.run(
            [str(environment / "bin/disttest"), *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode or wanted not in done.stdout:
            raise ReleaseError(f"`disttest {' '.join(words)}` of the wheel: exit code {done.returncode}, {done.stderr}")
    say(f"the wheel, alone: {', '.join('disttest ' + ' '.join(words[:2]) for words, _ in TRIES)}")
