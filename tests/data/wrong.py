"""The form of a wrong manifest, and what many of them share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.data.good_manifest import REMOVE, changed

UNSUPPORTED = "is not supported by this version of DistTest; remove it"
OURS = "is set by the operator; remove it"
POD = "spec/template/spec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """`change` maps paths into GOOD to new values. `server` is the API server's message where it differs."""

    id: str
    change: Mapping[str, Any] = field(default_factory=dict)
    parser: str
    server: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        return changed(self.change)


def one(path: str, value: Any, says: str, *, server: str = "", name: str = "") -> Wrong:
    """A row that changes one value; `says` is what both say, or the parser alone where `server` is given."""
    shown = "absent" if value is REMOVE else str(value)[:72]
    return Wrong(id=name or f"{path}={shown}", change={path: value}, parser=says, server=server)


def refused(path: str, value: Any, says: str = UNSUPPORTED) -> Wrong:
    shown = path.replace("/", ".").replace(".0", "[0]")
    return one(path, value, f"{shown}: {says}", server=f'unknown field "{shown}"', name=f"{path} refused")
