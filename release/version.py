"""The one version, in pyproject.toml, and every place that names it. Pure."""

import re
from collections.abc import Iterator, Mapping

from packaging.version import Version

from release.errors import ReleaseError

PROJECT = re.compile(r'(?m)^(version = ")(.+)(?=")')
# Each with what stands before it. `dev` and `1.0` are no versions of ours.
OURS = r"(\d+\.\d+\.\d+(?:\.?[a-z]+\d+)*)"
NAMED = (
    re.compile(rf"(\bdisttest-(?:operator|runner):){OURS}"),
    re.compile(rf'(\bnewTag: "?){OURS}'),
    re.compile(rf"(?m)^(ARG VERSION=){OURS}$"),
)
# Files that users copy from, or that are installed.
PLACES = ("pyproject.toml", "Dockerfile", "README.md", "docs/*.md", "manifests/**/*.yaml")


def of(project: str) -> str:
    """Of pyproject.toml."""
    if found := PROJECT.search(project):
        return found[2]
    raise ReleaseError("pyproject.toml has no version")


def strays(files: Mapping[str, str], version: str) -> list[str]:
    """Where another version is named."""
    found = {name: dict.fromkeys(_named(text)) for name, text in files.items()}
    return [f"{name} names {other}" for name, others in found.items() for other in others if other != version]


def changed(files: Mapping[str, str], version: str) -> dict[str, str]:
    """The files that differ then, by their names."""
    if not re.fullmatch(OURS, version) or str(Version(version)) != version:
        raise ReleaseError(f"{version!r} is no version: write 1.2.3, or 1.2.3.dev0 for what comes before it")
    made = {name: _replaced(name, text, version) for name, text in files.items()}
    return {name: text for name, text in made.items() if text != files[name]}


def _named(text: str) -> Iterator[str]:
    yield from (match[2] for pattern in NAMED for match in pattern.finditer(text))


def _replaced(name: str, text: str, version: str) -> str:
    for pattern in (PROJECT,) if name == "pyproject.toml" else NAMED:
        text = pattern.sub(rf"\g<1>{version}", text)
    return text
