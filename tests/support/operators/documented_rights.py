"""The rights that docs/operating/security.md lists."""

from dataclasses import dataclass

from tools.docs import permissions
from tools.docs.permissions import Right

# Roles for users, which no ServiceAccount has.
OF_PEOPLE = frozenset({"disttest-edit", "disttest-view", "disttest-template-user"})


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """A right in the list of the page."""

    role: str
    right: Right
    is_asked_by_admission: bool


def read(text: str) -> list[PermissionRow]:
    """Parse the list of docs/operating/security.md."""
    rows: list[PermissionRow] = []
    role = ""
    for line in text.partition(permissions.BEGIN)[2].partition(permissions.END)[0].splitlines():
        if line.startswith("`"):
            role = line.strip("`:")
        elif line.startswith("- `"):
            target, _, rest = line.removeprefix("- ").partition(" (")
            verbs, _, why = rest.partition("): ")
            _, resource_, *named = target.split("`")
            name = named[1] if len(named) > 1 else ""
            rows += [
                PermissionRow(role, Right(resource_, verb, name), why.startswith(permissions.MARK))
                for verb in verbs.split(", ")
            ]
    return rows
