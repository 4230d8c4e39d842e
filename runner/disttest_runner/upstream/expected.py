"""Tests that are expected to fail: one failed rank is enough for torch, so the others must hear of it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from disttest_runner.upstream import rules

FAILED, WELL = "failed", "well"


def is_expected(test: Callable[..., Any]) -> bool:
    """By unittest's decorator, on the method or on its class."""
    owner = type(getattr(test, "__self__", None))
    return any(getattr(one, "__unittest_expecting_failure__", False) for one in (test, owner))


def run(body: Callable[[], object], store: Any, *, rank: int, world_size: int, seconds: int) -> None:
    """A rank on which the test failed says so and goes; one that came through waits for what the others say."""
    try:
        body()
    except BaseException as error:
        if not (isinstance(error, SystemExit) and error.code in rules.PASSED):
            store.set(str(rank), FAILED)
            raise
    store.set(str(rank), WELL)
    ranks = [str(number) for number in range(world_size)]
    store.wait(ranks, timedelta(seconds=seconds))
    failed = [number for number in ranks if store.get(number).decode() == FAILED]
    if failed:
        raise AssertionError(f"failed on rank {', '.join(failed)}, as is expected of the test")
