"""docs/licences.md: the licences of everything that is installed with DistTest. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from tools.release import package_licences
from tools.release.package_licences import PackageEntry, Record, Role

HEAD = """# Licences

DistTest is under the Apache License 2.0 ([LICENSE](../LICENSE)). It contains no code of others; what it uses is
installed beside it, as it comes from the index, and is listed here: every pin of `constraints.txt`, with the SPDX
name of what the package says of itself or, where it says nothing, of the file that it carries.

Made by `python -m tools.docs` from the metadata of the packages; `tools/release/licences.json` keeps what was
read. A test
fails when something is shipped under a licence that is not among these: {agreed}.

Not listed: what is inside of base images (Debian, CUDA, your own), libraries that packages bundle (numpy brings
OpenBLAS and runtime libraries of GCC), and what builds the development cluster: modules of Go
(`devcluster/kubedev/go.mod`) and packages of Debian.
"""
SHORT: Mapping[Role, str] = {Role.OPERATOR: "operator", Role.COMMAND_LINE: "command line", Role.RUNNER: "runner"}


def page(record: Record) -> str:
    shipped = {key: one for key, one in record.items() if package_licences.SHIPPED.intersection(one.roles)}
    torch = {key: one for key, one in record.items() if key not in shipped and Role.TORCH in one.roles}
    rest = {key: one for key, one in record.items() if key not in shipped and key not in torch}
    lines = [
        HEAD.format(agreed=", ".join(sorted(package_licences.AGREED))),
        *_particular(record),
        "## In the images and with the command line",
        "",
        *_shipped(shipped),
        "",
        "## torch and what it brings",
        "",
        "Not shipped: the runner's image is built on an image of yours that has them. They are in it only where it is",
        "built with `RUNNER_BASE=torch`; whoever passes such an image on passes on NVIDIA's libraries, under NVIDIA's",
        "terms.",
        "",
        *_plain(torch),
        "",
        "## For development only",
        "",
        "In no image: build, tests, checks. Also what is pinned for systems that DistTest does not run on.",
        "",
        *_plain(rest),
    ]
    return "\n".join(lines) + "\n"


def _particular(record: Record) -> Iterator[str]:
    """The table of licences that need attention."""
    yield "| particular licences | packages |"
    yield "|---|---|"
    yield f"| copyleft | {_named(record, package_licences.is_copyleft)} |"
    yield f"| proprietary | {_named(record, lambda one: one == package_licences.PROPRIETARY)} |"
    yield f"| none stated | {_named(record, lambda one: one == package_licences.UNKNOWN)} |"
    yield f"| of their own | {_named(record, _is_own)} |"
    yield ""


def _is_own(licence: str) -> bool:
    return licence.startswith("LicenseRef-") and licence not in {package_licences.PROPRIETARY, package_licences.UNKNOWN}


def _named(record: Record, fits: package_licences.Test) -> str:
    """The packages whose licence fits, by licence and role."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for key, entry in record.items():
        for one in filter(fits, sorted(package_licences.parts(entry.licence))):
            found.setdefault((one, ", ".join(entry.roles)), {})[key.split()[0]] = None
    return "; ".join(f"{', '.join(names)} ({one}; {roles})" for (one, roles), names in found.items()) or "none"


def _shipped(record: Record) -> Iterator[str]:
    yield f"| package | version | licence | {' | '.join(SHORT.values())} |"
    yield "|---|---|---|" + "---|" * len(SHORT)
    for key, entry in record.items():
        yield f"{_row(key, entry)} {' | '.join('x' if role in entry.roles else '' for role in SHORT)} |"


def _plain(record: Record) -> Iterable[str]:
    yield "| package | version | licence |"
    yield "|---|---|---|"
    yield from (_row(key, entry) for key, entry in record.items())


def _row(key: str, entry: PackageEntry) -> str:
    name, version = key.split()
    return f"| {name} | {version} | {entry.licence} |"
