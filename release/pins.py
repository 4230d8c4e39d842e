"""constraints.txt and installer.txt: what is pinned, to which files. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from release.errors import ReleaseError

HASH = re.compile(r"\s--hash=(\S+)")
SHA256 = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of a package; `marker` says on which machines, `hashes` which files it may be."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def exactly(self) -> str:
        """For whatever machine, as an installer wants it."""
        return self._lines(f"{self.name}=={self.version}")

    @property
    def lines(self) -> str:
        """As they are in constraints.txt."""
        marker = f" ; {self.marker}" if self.marker else ""
        return self._lines(f"{self.name}=={self.version}{marker}")

    def _lines(self, requirement: str) -> str:
        return " \\\n".join([requirement, *(f"    --hash={one}" for one in self.hashes)]) + "\n"


def read(text: str, file: str = "constraints.txt") -> tuple[Pin, ...]:
    """All of a file. What is not pinned to one version and to sha256 sums is an error."""
    return tuple(_pin(line, file) for line in _requirements(text))


def chosen(pins: tuple[Pin, ...], wanted: Callable[[Pin], bool]) -> str:
    """A part of them, for `--require-hashes -r`."""
    return "".join(pin.lines for pin in pins if wanted(pin))


def _requirements(text: str) -> Iterator[str]:
    """With their continued lines, without comments."""
    whole = re.sub(r"\\\n", " ", text)
    yield from (line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _pin(line: str, file: str) -> Pin:
    words = HASH.sub("", line).strip()
    try:
        requirement = Requirement(words)
    except InvalidRequirement as error:
        raise ReleaseError(
            f"{file}: {words!r} is no pinned requirement: write NAME==VERSION with its hashes"
        ) from error
    versions = [one.version for one in requirement.specifier if one.operator == "=="]
    if requirement.url or len(requirement.specifier) != 1 or not versions or "*" in versions[0]:
        raise ReleaseError(f"{file}: {words!r} is not pinned to one version: write {requirement.name}==VERSION")
    hashes = tuple(HASH.findall(line))
    if not hashes or not all(map(SHA256.fullmatch, hashes)):
        raise ReleaseError(f"{file}: {words!r} has no sha256 sums: renew it as CONTRIBUTING.md says")
    return Pin(
        name=canonicalize_name(requirement.name),
        version=str(Version(versions[0])),
        marker=str(requirement.marker or ""),
        hashes=hashes,
    )
