"""Has every case start clean: puts back what the one before it changed in this process, or says that it cannot be.

What a test's body changes is put back after the body, and what is left of its set-up and tear-down after the case, but
what fixtures of classes, modules and the session set is meant to last.
"""

import faulthandler
import os
import random
import sys
from collections.abc import Callable, Generator

import numpy as np
import pytest
import torch
import torch.distributed as dist

from disttest_runner.linux import processes
from disttest_runner.process_group.generation import Generation
from disttest_runner.rank import process_state

PARAMETER = "get_direct_param_fixture_func"  # what pytest calls for a value of parametrize
OURS = "disttest_runner.rank.fixtures"
FORKED_AND_RETURNED = 0  # exit code of a copy of a rank: nobody waits for it
# Processes that libraries keep for later use.
KEPT_PROCESSES = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "compile_worker",
    "torch_shm_manager",
)


class CaseIsolation:
    """A pytest plugin."""

    def __init__(self, generation: Generation, watch_signals: Callable[[], None]) -> None:
        self._stale = ""
        self._generation, self._watch_signals = generation, watch_signals
        self._pid = os.getpid()
        self._streams = [(number, os.dup(number), _identity(number)) for number in (1, 2)]
        self._clean: process_state.State | None = None
        self._children: frozenset[int] = frozenset()
        self._lasts = False  # whether a fixture that outlives the case was set up or torn down in it
        self._sets_up = False  # whether anything of the case but its body can have changed something

    def why_stale(self) -> str:
        """Why the gang must be replaced before another case can be trusted, if so."""
        return self._stale or self._generation.spent

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._clean is None:
            self._clean = process_state.read()
        self._lasts = self._sets_up = False
        seed(self._generation.order.rank)
        result = yield
        self._end_if_copy()
        if self._lasts:
            self._clean, self._children = process_state.read(), _children()
        else:
            if self._sets_up:
                self._put_back(self._clean)
            self._end_children(item)
        self._check_streams(item)
        if self._generation.has_lost_group:
            self._replace_gang(item, "destroyed or replaced the gang's process group")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        before = process_state.read() if self._sets_up or self._clean is None else self._clean
        group = _default_group()
        try:
            result = yield
        finally:
            self._end_if_copy()
            self._put_back(before)
        self._generation.destroy_left_group(group)  # not after a failure: its peers may still be in a collective
        return result

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self._lasts = self._lasts or fixturedef.scope != "function"
        self._sets_up = self._sets_up or not _changes_nothing(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self._lasts = self._lasts or fixturedef.scope != "function"
        self._sets_up = self._sets_up or not _changes_nothing(fixturedef)

    def _end_if_copy(self) -> None:
        """A case forked and its child came back from the test's body: it must not take the rank's part."""
        if os.getpid() != self._pid:
            os._exit(FORKED_AND_RETURNED)

    def _put_back(self, wanted: process_state.State) -> None:
        if "signal handlers" in process_state.put_back(wanted):
            self._watch_signals()
        if not faulthandler.is_enabled():
            faulthandler.enable()

    def _end_children(self, item: pytest.Item) -> None:
        if not has_children():
            return
        for pid in _children() - self._children:
            command = processes.command(pid)
            if command and not any(word in command for word in KEPT_PROCESSES):
                processes.kill_tree(pid)
                _say(item, f"left process {pid} behind, which was killed: {command}")

    def _check_streams(self, item: pytest.Item) -> None:
        found = [_identity(number) for number, _, _ in self._streams]
        wrong = [(one, now) for one, now in zip(self._streams, found, strict=True) if now != one[2]]
        for (number, kept, _), _ in wrong:  # all of them before anything is said
            os.dup2(kept, number)
        if sys.stdout.closed or sys.stderr.closed:
            for number, name in ((1, "stdout"), (2, "stderr")):
                stream = os.fdopen(number, "w", buffering=1, closefd=False)
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
            self._clean = None  # the streams are a part of it
        if wrong:
            _say(item, "closed its output, which was opened again")
        if any(now is not None for _, now in wrong):
            self._replace_gang(item, "had something else in the place of its output, which has lost its descriptor now")

    def _replace_gang(self, item: pytest.Item, what: str) -> None:
        self._stale = f"{item.nodeid} {what}"
        _say(item, f"{what}: the next case gets a new gang")


def _changes_nothing(fixture: pytest.FixtureDef[object]) -> bool:
    """A parameter of the case, or a fixture of ours."""
    return fixture.func.__name__ == PARAMETER or fixture.func.__module__ == OURS


def seed(rank: int) -> None:
    """As when the rank began: a case draws the same numbers whatever ran before it.

    Not torch.manual_seed: where CUDA is not started yet it queues a call with its stack each time, 0.4 ms.
    """
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002 - the legacy generator is the one that tests share
    torch.default_generator.manual_seed(rank)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
        torch.cuda.manual_seed_all(rank)


def has_children() -> bool:
    """One system call, where reading them from /proc would take fifty times as long."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> frozenset[int]:
    return frozenset(processes.children()) if has_children() else frozenset()


def _default_group() -> object:
    return dist.group.WORLD if dist.is_initialized() else None


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _say(item: pytest.Item, what: str) -> None:
    print(f"disttest: {item.nodeid} {what}", file=sys.__stderr__, flush=True)
