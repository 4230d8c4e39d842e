"""A run that shows some faults: what is tried, and what this machine may lack for it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.integration.runner.faults.fault import Fault, FaultResult


def nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`show` runs it in a folder of its own and returns what was found, by the names of faults."""

    title: str
    faults: tuple[Fault, ...]
    show: Callable[[Path], dict[str, FaultResult]]
    lacks: Callable[[], str] = nothing
