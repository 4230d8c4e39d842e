"""Runs cases of unmodified files that need no gang once, on rank 0; the other ranks take no part in them."""

import os
import sys
from collections.abc import Collection, Generator
from typing import Any

import pytest

from disttest_runner.upstream.rules import HARNESS

OURS = frozenset({"gang", "process_group", "measure"})  # fixtures
# Hidden from a plain case, which would wait for the other ranks.
OF_GANG = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
)
IDLE = "idle: only rank 0 runs the case, because it uses neither fixtures of the runner nor torch's distributed harness"
# Classes, and the method that a subclass overrides to simulate all ranks.
_RUN_BY_RANKS = (
    ("MultiProcessTestCase", "join_or_run"),
    ("MultiThreadedTestCase", "join_or_run"),
    ("MultiProcContinuousTest", "_ensure_processes_spawned"),
    ("MultiProcContinousTest", "run_rank"),  # torch 2.7
)


class SinglesOnce:
    """A pytest plugin, for suites of unmodified files."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if not is_single(item):
            return (yield)
        hidden = {name: os.environ.pop(name) for name in OF_GANG if name in os.environ}
        try:
            return (yield)
        finally:
            os.environ.update(hidden)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._rank > 0 and is_single(item):
            pytest.skip(IDLE)


def is_single(item: pytest.Item) -> bool:
    fixtures: Collection[str] = getattr(item, "fixturenames", ())
    return OURS.isdisjoint(fixtures) and not is_of_gang(getattr(item, "cls", None))


def is_of_gang(cls: Any) -> bool:
    """Whether its cases run on all ranks. Some classes of the harness simulate all ranks in one process."""
    harness: Any = sys.modules.get(HARNESS)
    if harness is None or cls is None:
        return False
    for name, method in _RUN_BY_RANKS:
        base = getattr(harness, name, None)
        if base is not None and issubclass(cls, base):
            return _function(cls, method) is _function(base, method)
    return False


def _function(cls: Any, name: str) -> object:
    method = getattr(cls, name, None)
    return getattr(method, "__func__", method)
