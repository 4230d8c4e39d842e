"""The form of a rule over several fields of a spec."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`holds` gets the value at `path`, in which every field has passed its own rule."""

    path: str  # below spec; [] stands for each entry of a list
    sentence: str
    holds: Callable[[Any], bool]
