"""Asks the skip decorators of a test before anything is started for it.

Torch's decorators decide inside of the spawned process, after it has made its process group. Each of them is a function
that looks at the machine and then either leaves or calls what it decorates. Called with something in its place
that only says "I was called", it gives its answer alone.
"""

import types
from collections.abc import Callable, Iterator
from typing import Any

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


def ask(test: Callable[..., Any], instance: object) -> None:
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
