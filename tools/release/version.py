"""The one version, in pyproject.toml, and every place that names it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from packaging.version import Version

from tools.release.commit import ReleaseError

PROJECT = re.compile(r'(?m)^(version = ")(.+)(?=")')
# Each with the text before it. `dev` and `1.0` are not our versions.
OURS = r"(\d+\.\d+\.\d+(?:\.?[a-z]+\d+)*)"
NAMED = (
    re.compile(rf"(\bdisttest-(?:operator|runner):){OURS}"),
    re.compile(rf'(\bnewTag: "?){OURS}'),
    re.compile(rf"(?m)^(ARG VERSION=){OURS}$"),
)
# Files that users copy from or install.
PLACES = ("pyproject.toml", "Dockerfile", "README.md", "docs/**/*.md", "manifests/**/*.yaml")


def read_version(project: str) -> str:
    """The version in pyproject.toml."""
    if found := PROJECT.search(project):
        return found[2]
    raise ReleaseError("pyproject.toml has no version")


def strays(files: Mapping[str, str], version: str) -> list[str]:
    """Places that name another version."""
    found = ((name, match[2]) for name, text in files.items() for pattern in NAMED for match in pattern.finditer(text))
    return [f"{name} names {other}" for name, other in dict.fromkeys(found) if other != version]


def changed(files: Mapping[str, str], version: str) -> dict[str, str]:
    """The files that change for the version, by path."""
    if not re.fullmatch(OURS, version) or str(Version(version)) != version:
        raise ReleaseError(f"{version!r} is not a version: write 1.2.3, or 1.2.3.dev0 for what comes before it")
    made = {name: _replaced(name, text, version) for name, text in files.items()}
    return {name: text for name, text in made.items() if text != files[name]}


def _replaced(name: str, text: str, version: str) -> str:
    for pattern in (PROJECT,) if name == "pyproject.toml" else NAMED:
        text = pattern.sub(rf"\g<1>{version}", text)
    return text


UNRELEASED = "Unreleased"
HEADING = re.compile(r"(?m)^## (?P<name>\S+)(?: \((?P<date>\d{4}-\d\d-\d\d)\))?$")


def notes_of(changelog: str, version: str) -> str:
    """The chapter of the version without its heading. A released version needs a date."""
    headings = list(HEADING.finditer(changelog))
    for number, heading in enumerate(headings):
        if heading["name"] != version:
            continue
        if version != UNRELEASED and not heading["date"]:
            raise ReleaseError(f"CHANGELOG.md has no date for {version}: `## {version} (YYYY-MM-DD)`")
        end = headings[number + 1].start() if number + 1 < len(headings) else len(changelog)
        if text := changelog[heading.end() : end].strip():
            return text + "\n"
        raise ReleaseError(f"CHANGELOG.md has no entries for {version}")
    known = ", ".join(heading["name"] for heading in headings) or "nothing"
    raise ReleaseError(f"CHANGELOG.md has no chapter {version}, it has {known}: write `## {version} (YYYY-MM-DD)`")


OPERATOR = "disttest-operator"
RUNNER = "disttest-runner"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REGISTRY = re.compile(r"[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseImages:
    """Registry and, if known, digests of the images: a tag may move, a digest cannot."""

    version: str
    registry: str = ""
    operator_digest: str = ""
    runner_digest: str = ""

    def problems(self) -> list[str]:
        found = [
            f"{name}={digest} is not a digest: write sha256: and 64 hexadecimal digits, as printed after a push"
            for name, digest in (("OPERATOR_DIGEST", self.operator_digest), ("RUNNER_DIGEST", self.runner_digest))
            if digest and not DIGEST.fullmatch(digest)
        ]
        if self.registry and not REGISTRY.fullmatch(self.registry):
            found.append(
                f"REGISTRY={self.registry} is not an image registry: write it without https:// and final slash"
            )
        return found

    def named(self, manifests: str) -> str:
        """The manifests with these images instead of the bare names."""
        for name, digest in ((OPERATOR, self.operator_digest), (RUNNER, self.runner_digest)):
            place = f"{self.registry}/{name}" if self.registry else name
            image = f"{place}:{self.version}" + (f"@{digest}" if digest else "")
            manifests = _bare(name, self.version).sub(image, manifests)
        return manifests

    def lacking(self, manifests: str) -> list[str]:
        """Images that the manifests should name and do not."""
        wanted = (OPERATOR, RUNNER)
        return [f"{name}:{self.version}" for name in wanted if not _bare(name, self.version).search(manifests)]


def _bare(name: str, version: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w/.-]){name}:{re.escape(version)}(?![\w.@-])")
