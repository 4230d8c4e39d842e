"""Isolate cases: restore what a case changed in this process, or report that the gang must be replaced.

Changes by a test's body are restored after the body, those by its set-up and tear-down after the case. Changes by
fixtures of classes, modules and the session stay.
"""

import faulthandler
import os
import random
import sys
import threading
from collections.abc import Callable, Generator

import numpy as np
import pytest
import torch
import torch.distributed as dist

from disttest_runner.linux import processes
from disttest_runner.process_group import device
from disttest_runner.process_group.generation import Generation
from disttest_runner.rank import process_state

PARAMETER = "get_direct_param_fixture_func"  # what pytest calls for a value of parametrize
OURS = "disttest_runner.rank.fixtures"
QUERY_SECONDS = 1.0  # for a driver that hangs, which must not keep a failure from being reported
FORKED_AND_RETURNED = 0  # exit code of a forked copy of a rank, which no process waits for
# Processes that libraries keep for reuse.
REUSED_PROCESSES = (
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
        self._device = device.of_backend(generation.order.backend)
        self._pid = os.getpid()
        self._streams = [(number, os.dup(number), _identity(number)) for number in (1, 2)]
        self._clean: process_state.State | None = None
        self._children: frozenset[int] = frozenset()
        self._lasts = False  # a fixture that outlives the case was set up or torn down in it
        self._sets_up = False  # fixtures of the case can have changed the process
        self._device_error = ""  # of the case

    def why_stale(self) -> str:
        """Return why the gang must be replaced before the next case; empty otherwise."""
        return self._stale or self._generation.spent

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if self._clean is None:
            self._clean = process_state.read()
        self._lasts = self._sets_up = False
        self._device_error = ""
        seed(self._generation.order.rank)
        result = yield
        self._exit_if_forked()
        if self._lasts:
            self._clean, self._children = process_state.read(), _children()
        else:
            if self._sets_up:
                self._restore(self._clean)
            self._end_children(item)
        self._check_streams(item)
        if self._generation.has_lost_group:
            self._replace_gang(item, "destroyed or replaced the gang's process group")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        before = process_state.read() if self._sets_up or self._clean is None else self._clean
        group = dist.group.WORLD if dist.is_initialized() else None
        try:
            result = yield
            self._exit_if_forked()
            self._check_device(self._device.synchronize, "after the test's body")
        finally:
            self._exit_if_forked()
            self._restore(before)
        self._generation.destroy_left_group(group)  # not after a failure: its peers may still be in a collective
        return result

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self._lasts = self._lasts or fixturedef.scope != "function"
        self._sets_up = self._sets_up or not _changes_nothing(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        self.pytest_fixture_setup(fixturedef)

    def _exit_if_forked(self) -> None:
        """Exit in a forked child that returned from the test's body: it must not act as the rank."""
        if os.getpid() != self._pid:
            os._exit(FORKED_AND_RETURNED)

    def device_error(self, *, has_failed: bool) -> str:
        """Return the error of the accelerator that no call of the case has raised; empty if there is none.

        A case that has failed is not waited for: its work may never end. The device is only asked for an error that
        has happened, which can be the cause.
        """
        if has_failed:
            asking = threading.Thread(
                target=self._check_device, args=(self._device.query, "after the case"), daemon=True
            )
            asking.start()
            asking.join(QUERY_SECONDS)
        else:
            self._check_device(self._device.synchronize, "after the case")
        return self._device_error

    def _check_device(self, call: Callable[[], None], when: str) -> None:
        """Call the accelerator, which runs enqueued work; its first error is the case's, and replaces this process.

        A case ends when its work has ended. Work that never ends keeps it from ending, so that it exceeds its deadline.
        """
        try:
            call()
        except RuntimeError as error:
            self._device_error = self._device_error or f"the device reported {when}: {type(error).__name__}: {error}"
            self._stale = self._stale or "the device of this rank has failed"

    def _restore(self, wanted: process_state.State) -> None:
        if "signal handlers" in process_state.restore(wanted):
            self._watch_signals()
        if not faulthandler.is_enabled():
            faulthandler.enable()

    def _end_children(self, item: pytest.Item) -> None:
        if not has_children():
            return
        for pid in _children() - self._children:
            command = processes.command(pid)
            if command and not any(word in command for word in REUSED_PROCESSES):
                processes.kill_tree(pid)
                _print_note(item, f"left process {pid} running, which was killed: {command}")

    def _check_streams(self, item: pytest.Item) -> None:
        found = [_identity(number) for number, _, _ in self._streams]
        wrong = [(one, now) for one, now in zip(self._streams, found, strict=True) if now != one[2]]
        for (number, kept, _), _ in wrong:  # all of them before anything is printed
            os.dup2(kept, number)
        if sys.stdout.closed or sys.stderr.closed:
            for number, name in ((1, "stdout"), (2, "stderr")):
                stream = os.fdopen(number, "w", buffering=1, closefd=False)
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
            self._clean = None  # the streams are a part of it
        if wrong:
            _print_note(item, "closed its output, which was reopened")
        if any(now is not None for _, now in wrong):
            self._replace_gang(item, "used the file descriptor of its output for something else, which was closed")

    def _replace_gang(self, item: pytest.Item, what: str) -> None:
        self._stale = f"{item.nodeid} {what}"
        _print_note(item, f"{what}: the next case gets a new gang")


def _changes_nothing(fixture: pytest.FixtureDef[object]) -> bool:
    """Whether it is a parameter of the case or a fixture of the runner."""
    return fixture.func.__name__ == PARAMETER or fixture.func.__module__ == OURS


def seed(rank: int) -> None:
    """Seed as at the start of the rank, so that random numbers do not depend on earlier cases.

    torch.manual_seed is too slow: before CUDA is initialised it queues a call with its stack, 0.4 ms each time.
    """
    random.seed(rank)
    np.random.seed(rank)  # noqa: NPY002 - the legacy generator is the one that tests share
    torch.default_generator.manual_seed(rank)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch has no types here
        torch.cuda.manual_seed_all(rank)


def has_children() -> bool:
    """Check with one system call; reading /proc takes fifty times as long."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> frozenset[int]:
    return frozenset(processes.children()) if has_children() else frozenset()


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _print_note(item: pytest.Item, what: str) -> None:
    print(f"disttest: {item.nodeid} {what}", file=sys.__stderr__, flush=True)
