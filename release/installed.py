"""What the packages of this environment say of themselves, and the record that is kept of it."""

import json
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bootstrap
from release import licences, pins, roles
from release.errors import ReleaseError
from release.licences import Entry, Record, Role
from release.pins import Pin

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "release" / "licences.json"
NEWEST_PYTHON = "3.13"  # for packages that are pinned for newer ones than this environment's


def pinned() -> tuple[Pin, ...]:
    return pins.read((ROOT / "constraints.txt").read_text())


def record(root: Path = ROOT) -> Record:
    return licences.read(json.loads((root / "release" / "licences.json").read_text()))


def lacking(pinned: Iterable[Pin], record: Record) -> list[str]:
    """Pure. Where they differ."""
    return sorted({pin.key for pin in pinned} ^ set(record))


def renewed(known: Record, wanted: Sequence[Pin], found: Mapping[str, Message]) -> Record:
    """Pure. Of what is neither installed here nor known, nothing can be said."""
    if missing := [pin.key for pin in wanted if pin.key not in found and pin.key not in known]:
        raise ReleaseError(f"nothing is known of {', '.join(missing)}: run `python -m documents`, which looks at them")
    requires = {
        key.split()[0]: tuple(map(Requirement, one.get_all("Requires-Dist") or ())) for key, one in found.items()
    }
    asked = roles.roots(extras())
    reached = {role: roles.names(requirements, requires) for role, requirements in asked.items()}
    return {pin.key: _entry(pin, known, found, reached) for pin in wanted}


def renew() -> bool:
    """Write the record anew; whether anything changed."""
    wanted, known = pinned(), record() if RECORD.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        found = metadata(distributions())
        absent = [pin for pin in wanted if pin.key not in found and pin.key not in known]
        found |= _fetched(absent, Path(folder))
        made = renewed(known, wanted, found)
    RECORD.write_text(json.dumps(licences.written(made), indent=1) + "\n")
    return made != known


def metadata(installed: Iterable[Distribution]) -> dict[str, Message]:
    """By the keys of pins."""
    return {f"{canonicalize_name(one.metadata['Name'])} {one.version}": _message(one) for one in installed}


def _message(one: Distribution) -> Message:
    """importlib.metadata types it as something of its own, which it is not."""
    found: Any = one.metadata
    message: Message = found
    return message


def _entry(pin: Pin, known: Record, found: Mapping[str, Message], reached: Mapping[Role, frozenset[str]]) -> Entry:
    has = tuple(role for role, names in reached.items() if pin.name in names) or (Role.DEVELOPMENT,)
    if pin.key in found:
        return Entry(licence=licences.licence(pin.name, found[pin.key]), roles=has)
    return Entry(licence=licences.READ.get(pin.name, known[pin.key].licence), roles=has)


def extras() -> Mapping[str, Sequence[str]]:
    project: Mapping[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: Mapping[str, Sequence[str]] = project["optional-dependencies"]
    return found


def _fetched(absent: Sequence[Pin], folder: Path) -> dict[str, Message]:
    """Those for other machines, each alone: two versions of a package do not go into one place."""
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
