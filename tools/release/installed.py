"""The metadata of this environment's packages, and the record of it in licences.json."""

import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import cast

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools import bootstrap
from tools.release import package_licences
from tools.release.commit import ROOT, ReleaseError
from tools.release.package_licences import PackageEntry, Record, Role

HASH = re.compile(r"\s--hash=(\S+)")
SHA256 = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One version of a package; `marker` limits the machines, `hashes` the files."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def exactly(self) -> str:
        """The requirement without its marker, for any machine."""
        return self._lines(f"{self.name}=={self.version}")

    @property
    def lines(self) -> str:
        """The requirement as in constraints.txt."""
        marker = f" ; {self.marker}" if self.marker else ""
        return self._lines(f"{self.name}=={self.version}{marker}")

    def _lines(self, requirement: str) -> str:
        return " \\\n".join([requirement, *(f"    --hash={one}" for one in self.hashes)]) + "\n"


def read_pins(text: str, file: str = "constraints.txt") -> tuple[Pin, ...]:
    """Parse a constraints file; each line must have one version and sha256 sums."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return tuple(_pin(line, file) for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _pin(line: str, file: str) -> Pin:
    words = HASH.sub("", line).strip()
    try:
        requirement = Requirement(words)
    except InvalidRequirement as error:
        raise ReleaseError(
            f"{file}: {words!r} is not a pinned requirement: write NAME==VERSION with its hashes"
        ) from error
    versions = [one.version for one in requirement.specifier if one.operator == "=="]
    if requirement.url or len(requirement.specifier) != 1 or not versions or "*" in versions[0]:
        raise ReleaseError(f"{file}: {words!r} is not pinned to one version: write {requirement.name}==VERSION")
    hashes = tuple(HASH.findall(line))
    if not hashes or not all(map(SHA256.fullmatch, hashes)):
        raise ReleaseError(f"{file}: {words!r} has no sha256 sums: update it as CONTRIBUTING.md describes")
    return Pin(
        name=canonicalize_name(requirement.name),
        version=str(Version(versions[0])),
        marker=str(requirement.marker or ""),
        hashes=hashes,
    )


RECORD = ROOT / "tools/release/licences.json"
NEWEST_PYTHON = "3.13"  # for packages that are pinned for newer ones than this environment's


def pinned() -> tuple[Pin, ...]:
    return read_pins((ROOT / "constraints.txt").read_text())


def record(root: Path = ROOT) -> Record:
    return msgspec.json.decode((root / "tools/release/licences.json").read_bytes(), type=dict[str, PackageEntry])


def lacking(pinned: Iterable[Pin], record: Record) -> list[str]:
    """The keys in which pins and record differ."""
    return sorted({pin.key for pin in pinned} ^ set(record))


def renewed(known: Record, wanted: Sequence[Pin], found: Mapping[str, Message]) -> Record:
    """The record of the wanted pins; raises a ReleaseError for pins that are neither installed nor known."""
    if missing := [pin.key for pin in wanted if pin.key not in found and pin.key not in known]:
        raise ReleaseError(f"the licences of {', '.join(missing)} are not recorded. Run `python -m tools.docs`")
    requires = {
        key.split()[0]: tuple(map(Requirement, one.get_all("Requires-Dist") or ())) for key, one in found.items()
    }
    asked = package_licences.role_roots(extras())
    reached = {role: package_licences.role_names(requirements, requires) for role, requirements in asked.items()}
    return {pin.key: _entry(pin, known, found, reached) for pin in wanted}


def renew() -> bool:
    """Write the record; returns whether it changed."""
    wanted, known = pinned(), record() if RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = metadata(distributions())
        absent = [pin for pin in wanted if pin.key not in found and pin.key not in known]
        found |= _download_metadata(absent, Path(folder))
        made = renewed(known, wanted, found)
    RECORD.write_text(json.dumps(msgspec.to_builtins(dict(sorted(made.items()))), indent=1) + "\n")
    return made != known


def metadata(installed: Iterable[Distribution]) -> dict[str, Message]:
    """The metadata of packages, by the keys of pins."""
    found = ((cast("Message", one.metadata), one.version) for one in installed)
    return {f"{canonicalize_name(message['Name'])} {version}": message for message, version in found}


def _entry(
    pin: Pin, known: Record, found: Mapping[str, Message], reached: Mapping[Role, frozenset[str]]
) -> PackageEntry:
    has = tuple(role for role, names in reached.items() if pin.name in names) or (Role.DEVELOPMENT,)
    if pin.key in found:
        return PackageEntry(licence=package_licences.licence(pin.name, found[pin.key]), roles=has)
    return PackageEntry(licence=package_licences.READ.get(pin.name, known[pin.key].licence), roles=has)


def extras() -> Mapping[str, Sequence[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: Mapping[str, Sequence[str]] = project["optional-dependencies"]
    return found


def _download_metadata(absent: Sequence[Pin], folder: Path) -> dict[str, Message]:
    """The metadata of pins for other machines; each is installed alone, because versions of a package conflict."""
    found: dict[str, Message] = {}
    for number, pin in enumerate(absent):
        asked, place = folder / f"{number}.txt", folder / str(number)
        asked.write_text(pin.exactly)
        install = (bootstrap.uv(), "pip", "install", "-q", "--no-deps", "--require-hashes")
        subprocess.run(
            [*map(str, install), "--python-version", NEWEST_PYTHON, "--target", str(place), "-r", str(asked)],
            check=True,
            env=os.environ | bootstrap.uv_environment(),
        )
        found |= metadata(distributions(path=[str(place)]))
    return found
