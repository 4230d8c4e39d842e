"""Who takes part in a case of torch's harness, and what the way it left means. No torch, no I/O."""

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

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
class ProcessEnd:
    """Well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCodes:
    """By which a spawned process says why it skips, and that it failed."""

    skips: Mapping[int, str]
    error: int


def meaning(code: object, codes: ExitCodes, *, told: str, is_any_well: bool = False) -> Skipped | Failed | ProcessEnd:
    """Of a SystemExit in a part that torch would have run in a process of its own.

    `told` is what it sent through its pipe; `is_any_well` for a test that may leave in any way but by an error.
    """
    if code == codes.error:
        return Failed(told or f"the part left with exit code {codes.error}, for an error, and sent no traceback")
    if code in PASSED or is_any_well:
        return ProcessEnd()
    if isinstance(code, int) and code in codes.skips:
        return Skipped(codes.skips[code])
    return Failed(f"the part left with exit code {code}" + (f":\n{told}" if told else ""))


def why_end_unplayable(expected_code: int) -> str:
    """A case that must end its process would end the rank, and with it the gang."""
    return f"{NOT_RUN}the case must end its process with exit code {expected_code}, and ranks outlive their cases"


FAILED, WELL = "failed", "well"


def is_expected(test: Callable[..., Any]) -> bool:
    """By unittest's decorator, on the method or on its class."""
    owner = type(getattr(test, "__self__", None))
    return any(getattr(one, "__unittest_expecting_failure__", False) for one in (test, owner))


def run_expected_failure(body: Callable[[], object], store: Any, *, rank: int, world_size: int, seconds: int) -> None:
    """A rank on which the test failed says so and goes; one that came through waits for what the others say."""
    try:
        body()
    except BaseException as error:
        if not (isinstance(error, SystemExit) and error.code in PASSED):
            store.set(str(rank), FAILED)
            raise
    store.set(str(rank), WELL)
    ranks = [str(number) for number in range(world_size)]
    store.wait(ranks, timedelta(seconds=seconds))
    failed = [number for number in ranks if store.get(number).decode() == FAILED]
    if failed:
        raise AssertionError(f"failed on rank {', '.join(failed)}, as is expected of the test")


# Decorators of torch.testing._internal.common_distributed that decide, and do nothing else, before they call.
DECIDING = (
    "skip_if_",
    "nccl_skip_if_",
    "require_n_gpus_for_nccl_backend",
    "import_transformers_or_skip",
)
HARNESS = "torch.testing._internal.common_distributed"


class _ReachedError(Exception):
    """The decorator lets the test run."""


def ask_decorators(test: Callable[..., Any], instance: object) -> None:
    """Raises whatever a decorator of this (bound) method raises to skip it: SystemExit or SkipTest."""
    for wrapper in _decorators(getattr(test, "__func__", test)):
        alone = _alone(wrapper)
        if alone is None:
            continue
        try:
            alone(instance)
        except _ReachedError:
            continue


def _decorators(function: Any) -> Iterator[types.FunctionType]:
    """The outermost comes first, as it does when the test is called."""
    while function is not None:
        if isinstance(function, types.FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _alone(wrapper: types.FunctionType) -> Callable[..., Any] | None:
    code = wrapper.__code__
    if wrapper.__globals__.get("__name__") != HARNESS or not is_deciding(_qualified_name(code)):
        return None
    if "func" not in code.co_freevars or wrapper.__closure__ is None:
        return None
    cells = [
        types.CellType(_say_reached) if name == "func" else cell
        for name, cell in zip(code.co_freevars, wrapper.__closure__, strict=True)
    ]
    return types.FunctionType(code, wrapper.__globals__, closure=tuple(cells))


def _qualified_name(code: types.CodeType) -> str:
    return str(code.co_qualname)


def is_deciding(qualified_name: str) -> bool:
    """`skip_if_lt_x_gpu.<locals>.decorator.<locals>.wrapper` is."""
    return qualified_name.startswith(DECIDING)


def _say_reached(*_: object, **__: object) -> None:
    raise _ReachedError
