"""The licence and the roles of each package. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from enum import StrEnum

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class Role(StrEnum):
    """Where a package is used, in the order of the tables."""

    OPERATOR = "operator image"
    COMMAND_LINE = "command line"
    RUNNER = "runner image"
    TORCH = "torch"
    DEVELOPMENT = "development"


SHIPPED = frozenset({Role.OPERATOR, Role.COMMAND_LINE, Role.RUNNER})
UNKNOWN = "LicenseRef-Unknown"
PROPRIETARY = "LicenseRef-NVIDIA-Proprietary"
# These require only their text with each copy. MPL-2.0 also requires the source of the package, which is on the
# index: it is agreed for certifi, an unchanged list of certificates.
AGREED = frozenset(
    {
        *("Apache-2.0", "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "PSF-2.0", "Zlib", "CC0-1.0"),
        *("MIT-CMU", "BSL-1.0", "MPL-2.0"),
    }
)
COPYLEFT = ("AGPL-", "GPL-", "LGPL-", "MPL-", "EPL-", "CDDL-", "EUPL-", "OSL-", "SSPL-", "CC-BY-SA-")
# Names in packages of licences on SPDX's list.
ALIASES = {
    "Apache 2.0": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "NVIDIA Proprietary Software": PROPRIETARY,
}
# "BSD License" is not among them: it is two licences.
CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
    "License :: Other/Proprietary License": UNKNOWN,
}
# Read in the package's licence file, because the metadata does not name the licence.
READ = {
    "axe-playwright-python": "MIT",
    "colorama": "BSD-3-Clause",
    "cycler": "BSD-3-Clause",
    "google-re2": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "matplotlib": "LicenseRef-Matplotlib",  # its own words, like those of PSF-2.0
    "mpmath": "BSD-3-Clause",
    "sympy": "BSD-3-Clause",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageEntry:
    """The licence and roles of a pin."""

    licence: str
    roles: tuple[Role, ...]


Record = Mapping[str, PackageEntry]  # by the pins' keys
Test = Callable[[str], bool]


def licence(name: str, metadata: Message) -> str:
    """The SPDX licence that a package declares."""
    if name in READ:
        return READ[name]
    said = (metadata["License-Expression"], (metadata["License"] or "").strip().partition("\n")[0].strip())
    for words in filter(None, said):
        try:
            return str(canonicalize_license_expression(ALIASES.get(words, words)))
        except InvalidLicenseExpression:
            continue
    found = [CLASSIFIERS[line] for line in metadata.get_all("Classifier") or () if line in CLASSIFIERS]
    return " AND ".join(dict.fromkeys(found)) or UNKNOWN


def parts(expression: str) -> frozenset[str]:
    """The licences that an expression names, without exceptions."""
    plain = re.sub(r" WITH \S+|[()]", "", expression)
    return frozenset(re.split(r" (?:AND|OR) ", plain))


def is_copyleft(licence: str) -> bool:
    return licence.startswith(COPYLEFT)


def objections(record: Record) -> list[str]:
    """Packages that are shipped under a licence that was not agreed."""
    return [
        f"{key}: {', '.join(sorted(foreign))} was not agreed for what is shipped ({', '.join(entry.roles)})"
        for key, entry in record.items()
        if SHIPPED.intersection(entry.roles) and (foreign := parts(entry.licence) - AGREED)
    ]


Requires = Mapping[str, Sequence[Requirement]]  # by canonical names
# A package has a role if it is installed for it on one of these.
MACHINES = tuple(
    {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_version": f"{python}.0",
    }
    for machine in ("x86_64", "aarch64")
    for python in ("3.11", "3.12", "3.13", "3.14")
)
BASE = ("torch", "numpy")  # of the base image of the runner


def role_roots(extras: Mapping[str, Iterable[str]]) -> Mapping[Role, tuple[Requirement, ...]]:
    """The requirements of each role in pyproject.toml; everything else is for development."""
    runner = tuple(map(Requirement, extras["runner"]))
    command_line = tuple(map(Requirement, extras["cli"]))
    return {
        Role.OPERATOR: (*map(Requirement, extras["operator"]), *command_line),
        Role.COMMAND_LINE: command_line,
        Role.RUNNER: tuple(one for one in runner if one.name not in BASE),
        Role.TORCH: tuple(one for one in runner if one.name in BASE),
    }


def role_names(asked: Iterable[Requirement], requires: Requires) -> frozenset[str]:
    """The names of the requirements and of all that these require."""
    found: set[tuple[str, str]] = set()
    waiting = [one for requirement in asked for one in _needs(requirement, "")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        waiting += [one for requirement in requires.get(name, ()) for one in _needs(requirement, extra)]
    return frozenset(name for name, _ in found)


def _needs(requirement: Requirement, extra: str) -> Iterator[tuple[str, str]]:
    if requirement.marker is None or _holds(requirement.marker, extra):
        yield from ((canonicalize_name(requirement.name), one) for one in ("", *requirement.extras))


def _holds(marker: Marker, extra: str) -> bool:
    return any(marker.evaluate({**machine, "extra": extra}) for machine in MACHINES)
