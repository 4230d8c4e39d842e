"""A run that shows some faults: what is tried, and what this machine may lack for it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.integration.runner.faults.fault import Fault, FaultResult


def nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`show` runs it in a separate folder and returns the results by the names of faults."""

    title: str
    faults: tuple[Fault, ...]
    show: Callable[[Path], dict[str, FaultResult]]
    lacks: Callable[[], str] = nothing
