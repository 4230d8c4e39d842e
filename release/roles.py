"""Which packages come with what is asked for, on whatever machine DistTest runs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.licences import Role

Requires = Mapping[str, Sequence[Requirement]]  # by canonical names
# A package has a role if it has it on one of these.
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
BASE = ("torch", "numpy")  # of the runner's image: somebody else's


def roots(extras: Mapping[str, Iterable[str]]) -> Mapping[Role, tuple[Requirement, ...]]:
    """What is asked for by name, in pyproject.toml. Development is what else there is."""
    runner = tuple(map(Requirement, extras["runner"]))
    command_line = tuple(map(Requirement, extras["cli"]))
    return {
        Role.OPERATOR: (*map(Requirement, extras["operator"]), *command_line),
        Role.COMMAND_LINE: command_line,
        Role.RUNNER: tuple(one for one in runner if one.name not in BASE),
        Role.TORCH: tuple(one for one in runner if one.name in BASE),
    }


def names(asked: Iterable[Requirement], requires: Requires) -> frozenset[str]:
    """With all that these require in turn."""
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
