"""The commit of the clone that a release is made from."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


class ReleaseError(Exception):
    """What is wrong, with what, and what to do about it, in one line."""


ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The source of a release; `changes` are files of the clone that differ from it."""

    name: str
    time: int
    tags: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def current(root: Path = ROOT) -> Commit:
    name, time = _git(root, "log", "-1", "--format=%H %ct").split()
    return Commit(
        name=name,
        time=int(time),
        tags=tuple(_git(root, "tag", "--points-at", "HEAD").split()),
        changes=tuple(line[3:] for line in _git(root, "status", "--porcelain").splitlines()),
    )


def export(name: str, folder: Path, root: Path = ROOT) -> Path:
    """Write the files of the commit `name` into a new folder."""
    folder.mkdir(parents=True)
    archive = folder.with_name(f"{folder.name}.tar")
    _git(root, "archive", f"--output={archive.absolute()}", name)
    subprocess.run(["tar", "-x", "-C", str(folder), "-f", str(archive)], check=True)
    archive.unlink()
    return folder


def problems(commit: Commit, version: str) -> list[str]:
    """Why the commit cannot be released as that version."""
    found = []
    if commit.changes:
        more = f" and {len(commit.changes) - 3} more" if len(commit.changes) > 3 else ""
        found.append(f"{', '.join(commit.changes[:3])}{more} differ from the commit: commit or remove them")
    named = [tag for tag in commit.tags if tag.startswith("v") and tag[1:2].isdigit()]
    if named and f"v{version}" not in named:
        found.append(f"the commit has the tag {', '.join(named)}, pyproject.toml has {version}")
    return found


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"a release is made of a clone: `git {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout
