"""The rights that docs/security.md lists."""

from dataclasses import dataclass

from tools.docs import permissions
from tools.docs.permissions import Right


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """A row of the page's tables."""

    role: str
    right: Right
    is_asked_by_admission: bool


def read(text: str) -> list[PermissionRow]:
    """Parse the tables of docs/security.md."""
    rows, role = [], ""
    for line in text.partition(permissions.BEGIN)[2].partition(permissions.END)[0].splitlines():
        if line.startswith(permissions.HEADING):
            role = line.removeprefix(permissions.HEADING).strip("`")
        elif line.startswith("| `"):
            target, verbs, why = (cell.strip() for cell in line.strip("|").split("|", 2))
            _, resource_, *named = target.split("`")
            name = named[1] if len(named) > 1 else ""
            rows += [
                PermissionRow(role, Right(resource_, verb, name), why.startswith(permissions.MARK))
                for verb in verbs.split(", ")
            ]
    return rows
