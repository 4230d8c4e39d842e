"""docs/development/licences.md: the licences of everything that is installed with DistTest. Pure."""

from collections.abc import Collection, Mapping

from tools.docs import bullets, wrapped
from tools.release import package_licences
from tools.release.package_licences import Record, Role

HEAD = """\
DistTest has the Apache License 2.0 ([LICENSE](../../LICENSE)) and contains no third-party code. This page lists every
package in `constraints.txt` with the SPDX name of its licence. A test fails if a shipped package has a licence other
than {agreed}."""
NOT_LISTED = """\
The list does not contain base images, libraries that packages bundle, the Go modules of the development cluster
(`devcluster/kubedev/go.mod`) and Debian packages."""
NOT_SHIPPED = """\
DistTest ships these packages only in a runner image that is built with `RUNNER_BASE=torch`. If you
redistribute such an image, the terms of NVIDIA apply to its libraries."""
MOST_NAMES = 8  # of a licence in the first list; more are only in the lists below it
SHORT: Mapping[Role, str] = {Role.OPERATOR: "operator", Role.COMMAND_LINE: "command line", Role.RUNNER: "runner"}


def page(record: Record) -> str:
    shipped = {key: one for key, one in record.items() if package_licences.SHIPPED.intersection(one.roles)}
    torch = {key: one for key, one in record.items() if key not in shipped and Role.TORCH in one.roles}
    blocks = [
        "# Licences",
        wrapped(HEAD.format(agreed=", ".join(sorted(package_licences.AGREED)))),
        wrapped(NOT_LISTED),
        _particular(record),
        "## Images and command line",
        _packages(shipped, SHORT),
        "## torch and its dependencies",
        wrapped(NOT_SHIPPED),
        _packages(torch, {}),
        "## Development",
        "Packages for development are in no image. `tools/release/licences.json` lists their licences.",
    ]
    return "\n\n".join(blocks) + "\n"


def _particular(record: Record) -> str:
    """The list of licences that need attention."""
    kinds: dict[str, package_licences.Test] = {
        "copyleft": package_licences.is_copyleft,
        "proprietary": lambda one: one == package_licences.PROPRIETARY,
        "none stated": lambda one: one == package_licences.UNKNOWN,
        "other": _is_own,
    }
    return bullets((kind, _named(record, fits)) for kind, fits in kinds.items())


def _is_own(licence: str) -> bool:
    return licence.startswith("LicenseRef-") and licence not in {package_licences.PROPRIETARY, package_licences.UNKNOWN}


def _named(record: Record, fits: package_licences.Test) -> str:
    """The packages whose licence fits, by licence and role."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for key, entry in record.items():
        for one in filter(fits, sorted(package_licences.parts(entry.licence))):
            found.setdefault((one, ", ".join(entry.roles)), {})[key.split()[0]] = None
    return "; ".join(f"{_names(names)} ({one}; {roles})" for (one, roles), names in found.items()) or "none"


def _names(names: Collection[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} packages below"


def _packages(record: Record, columns: Mapping[Role, str]) -> str:
    """A list of licences and their packages; with columns also the parts that contain them."""
    found: dict[str, dict[str, None]] = {}
    for key, entry in record.items():
        parts = ", ".join(part for role, part in columns.items() if role in entry.roles)
        group = f"{entry.licence} ({parts})" if parts else entry.licence
        found.setdefault(group, {})[key.split()[0]] = None
    return bullets((group, ", ".join(names)) for group, names in sorted(found.items()))
