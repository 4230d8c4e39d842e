"""Who takes part in a case of torch's harness, and what the way it left means. No torch, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

IDLE = "idle: "
NOT_RUN = "not run: "
PASSED = (None, 0)  # what sys.exit() may be given


def why_not(world_size: int, *, rank: int, gang_size: int) -> str:
    """The reason to skip, marked for the report; empty for a rank that plays."""
    if world_size <= 0:
        return f"{NOT_RUN}the class asks for {world_size} ranks, as where no accelerator is found: nothing would run"
    if world_size > gang_size:
        return f"{NOT_RUN}the class asks for {world_size} ranks, the gang has {gang_size}"
    if rank >= world_size:
        return f"{IDLE}the class asks for {world_size} ranks"
    return ""


@dataclass(frozen=True, slots=True)
class Skipped:
    message: str


@dataclass(frozen=True, slots=True)
class Failed:
    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCodes:
    """By which a spawned process says why it skips, and that it failed."""

    skips: Mapping[int, str]
    error: int


def meaning(code: object, codes: ExitCodes, *, told: str, is_any_well: bool = False) -> Skipped | Failed | Ended:
    """Of a SystemExit in a part that torch would have run in a process of its own.

    `told` is what it sent through its pipe; `is_any_well` for a test that may leave in any way but by an error.
    """
    if code == codes.error:
        return Failed(told or f"the part left with exit code {codes.error}, for an error, and sent no traceback")
    if code in PASSED or is_any_well:
        return Ended()
    if isinstance(code, int) and code in codes.skips:
        return Skipped(codes.skips[code])
    return Failed(f"the part left with exit code {code}" + (f":\n{told}" if told else ""))


def why_end_unplayable(expected_code: int) -> str:
    """A case that must end its process would end the rank, and with it the gang."""
    return f"{NOT_RUN}the case must end its process with exit code {expected_code}, and ranks outlive their cases"
