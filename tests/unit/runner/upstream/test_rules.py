"""Which ranks take part in a case of torch's harness, the exit codes, and the decorators that decide. No torch."""

import unittest
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from disttest_runner.upstream import rules
from disttest_runner.upstream.rules import ExitCodes

CODES = ExitCodes(skips={75: "Need at least 1 CUDA device", 86: "generic"}, error=10)


@pytest.mark.parametrize(
    ("world_size", "rank", "begins"),
    [
        (2, 0, ""),
        (4, 3, ""),
        (2, 2, "idle: "),
        (1, 3, "idle: "),
        (5, 0, "not run: "),
        (0, 0, "not run: "),
        (-2, 1, "not run: "),
    ],
)
def test_the_first_ranks_take_part_where_the_world_fits(world_size: int, rank: int, begins: str) -> None:
    reason = rules.why_not(world_size, rank=rank, gang_size=4)
    assert reason.startswith(begins)
    assert bool(reason) is bool(begins)


@pytest.mark.parametrize(
    ("code", "accepts_any", "meaning"),
    [
        (None, False, None),
        (0, False, None),
        (75, False, unittest.SkipTest("Need at least 1 CUDA device")),
        (10, False, AssertionError("the traceback")),
        (10, True, AssertionError("the traceback")),
        (3, False, AssertionError("this rank exited with code 3:\nthe traceback")),
        (3, True, None),
        ("words", False, AssertionError("this rank exited with code words:\nthe traceback")),
    ],
)
def test_an_exit_code_means_what_torch_means_by_it(code: object, accepts_any: bool, meaning: object) -> None:  # noqa: FBT001 - a column of the table
    # exceptions of one kind and text are not equal, but look the same
    assert repr(rules.read_exit(code, CODES, traceback="the traceback", accepts_any=accepts_any)) == repr(meaning)


def test_an_error_without_a_traceback_is_a_failure_all_the_same() -> None:
    assert isinstance(rules.read_exit(10, CODES, traceback=""), AssertionError)


# A decorator as the harness has them, in a module of its name.
HARNESS = {"__name__": rules.HARNESS, "wraps": wraps, "machine": {"gpus": 0}}
SOURCE = """
def skip_if_lt_x_gpu(x):
    def decorator(func):
        @wraps(func)
        def wrapper(*args, **kwargs):
            if machine["gpus"] < x:
                raise SystemExit(75)
            return func(*args, **kwargs)
        return wrapper
    return decorator

def with_something(func):
    @wraps(func)
    def wrapper(*args, **kwargs):
        machine["entered"] = True
        return func(*args, **kwargs)
    return wrapper
"""


@pytest.fixture
def harness() -> dict[str, Any]:
    names = dict(HARNESS, machine={"gpus": 0})
    exec(SOURCE, names)  # noqa: S102 - the only way to have functions of a module of that name
    return names


def test_a_skipping_decorator_is_asked_without_running_the_test(harness: dict[str, Any]) -> None:
    reached = []

    @harness["skip_if_lt_x_gpu"](2)  # type: ignore[untyped-decorator]  # made from text
    def test(_: object) -> None:
        reached.append(1)

    with pytest.raises(SystemExit, match="75"):
        rules.ask_decorators(test, object())
    harness["machine"]["gpus"] = 2
    rules.ask_decorators(test, object())
    assert reached == []


def test_a_decorator_with_effects_is_passed_over_and_the_one_behind_it_asked(harness: dict[str, Any]) -> None:
    @harness["with_something"]  # type: ignore[untyped-decorator]  # made from text
    @harness["skip_if_lt_x_gpu"](1)  # type: ignore[untyped-decorator]  # same
    def test(_: object) -> None:
        raise AssertionError

    with pytest.raises(SystemExit):
        rules.ask_decorators(test, object())
    assert "entered" not in harness["machine"]


def test_decorators_of_other_modules_are_not_asked() -> None:
    def skip_if_unlucky(func: Callable[[object], None]) -> Callable[[object], None]:
        @wraps(func)
        def wrapper(this: object) -> None:
            raise unittest.SkipTest("unlucky")

        return wrapper

    @skip_if_unlucky
    def test(_: object) -> None:
        raise AssertionError

    rules.ask_decorators(test, object())


@pytest.mark.parametrize(
    ("name", "is_deciding"),
    [
        ("skip_if_lt_x_gpu.<locals>.decorator.<locals>.wrapper", True),
        ("skip_if_no_gpu.<locals>.wrapper", True),
        ("nccl_skip_if_lt_x_gpu.<locals>.decorator.<locals>.wrapper", True),
        ("with_dist_debug_levels.<locals>.decorator.<locals>.wrapper", False),
        ("with_nccl_blocking_wait.<locals>.wrapper", False),
    ],
)
def test_only_decorators_without_effects_are_asked(name: str, is_deciding: bool) -> None:  # noqa: FBT001 - a column of the table
    assert rules.is_deciding(name) is is_deciding
