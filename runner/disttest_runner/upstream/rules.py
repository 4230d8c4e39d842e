"""The rules of torch's harness: which ranks take part, exit codes, expected failures, deciding decorators. No torch."""

import types
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

IDLE = "idle: "
NOT_RUN = "not run: "
PASSED = (None, 0)  # arguments of sys.exit()
FAILED, PASSED_HERE = "failed", "well"
# Decorators of common_distributed that only decide whether to call the test.
DECIDING = (
    "skip_if_",
    "nccl_skip_if_",
    "require_n_gpus_for_nccl_backend",
    "import_transformers_or_skip",
)
HARNESS = "torch.testing._internal.common_distributed"


def why_not(world_size: int, *, rank: int, gang_size: int) -> str:
    """Return the reason to skip, with its prefix for the report; empty for a rank that takes part."""
    if world_size <= 0:
        return f"{NOT_RUN}the class requires {world_size} ranks, because it finds no accelerator"
    if world_size > gang_size:
        return f"{NOT_RUN}the class requires {world_size} ranks, but the gang has {gang_size}"
    if rank >= world_size:
        return f"{IDLE}the class requires {world_size} ranks"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCodes:
    skips: Mapping[int, str]
    error: int


def read_exit(code: object, codes: ExitCodes, *, traceback: str, accepts_any: bool = False) -> Exception | None:
    """Return what the SystemExit of a part means that torch would run in a separate process; None for a good end.

    `traceback` is what the part sent through its pipe; `accepts_any` is for a test that may exit with any other code.
    """
    if code == codes.error:
        nothing = f"this rank exited with code {codes.error} (error) without a traceback"
        return AssertionError(traceback or nothing)
    if code in PASSED or accepts_any:
        return None
    if isinstance(code, int) and code in codes.skips:
        return unittest.SkipTest(codes.skips[code])
    return AssertionError(f"this rank exited with code {code}" + (f":\n{traceback}" if traceback else ""))


def why_exit_is_not_run(expected_code: int) -> str:
    """Return why a case that must end its process is skipped: it would end the rank, and with it the gang."""
    return f"{NOT_RUN}the case must exit with code {expected_code}, but ranks run several cases"


def is_expected(test: Callable[..., Any]) -> bool:
    owner = type(getattr(test, "__self__", None))
    return any(getattr(one, "__unittest_expecting_failure__", False) for one in (test, owner))


def run_expected_failure(body: Callable[[], object], store: Any, *, rank: int, world_size: int, seconds: int) -> None:
    """Run an expected failure: a rank that failed raises at once, one that passed waits for the results of all."""
    try:
        body()
    except BaseException as error:
        if not (isinstance(error, SystemExit) and error.code in PASSED):
            store.set(str(rank), FAILED)
            raise
    store.set(str(rank), PASSED_HERE)
    ranks = [str(number) for number in range(world_size)]
    store.wait(ranks, timedelta(seconds=seconds))
    failed = [number for number in ranks if store.get(number).decode() == FAILED]
    if failed:
        raise AssertionError(f"failed on rank {', '.join(failed)}, as the test expects")


class _ReachedError(Exception):
    """The decorator calls the test."""


def ask_decorators(test: Callable[..., Any], instance: object) -> None:
    """Run the deciding decorators of a bound method alone: they raise SystemExit or SkipTest to skip it."""
    for wrapper in _decorators(getattr(test, "__func__", test)):
        alone = _alone(wrapper)
        if alone is None:
            continue
        try:
            alone(instance)
        except _ReachedError:
            continue


def _decorators(function: Any) -> Iterator[types.FunctionType]:
    """Yield the decorators, outermost first, in the order of a call."""
    while function is not None:
        if isinstance(function, types.FunctionType):
            yield function
        function = getattr(function, "__wrapped__", None)


def _alone(wrapper: types.FunctionType) -> Callable[..., Any] | None:
    code = wrapper.__code__
    if wrapper.__globals__.get("__name__") != HARNESS or not is_deciding(code.co_qualname):
        return None
    if "func" not in code.co_freevars or wrapper.__closure__ is None:
        return None
    cells = [
        types.CellType(_raise_reached) if name == "func" else cell
        for name, cell in zip(code.co_freevars, wrapper.__closure__, strict=True)
    ]
    return types.FunctionType(code, wrapper.__globals__, closure=tuple(cells))


def is_deciding(qualified_name: str) -> bool:
    """`skip_if_lt_x_gpu.<locals>.decorator.<locals>.wrapper` is."""
    return qualified_name.startswith(DECIDING)


def _raise_reached(*_: object, **__: object) -> None:
    raise _ReachedError
