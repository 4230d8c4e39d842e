"""MultiProcContinuousTest and what derives from it: one process group for all cases of a class.

Torch 2.7 spells it with one n less and has no workers: there a class is set up in each rank, as torchrun would do it.
"""

import inspect
import os
import types
import unittest
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist

from disttest_runner.upstream.run_case import CaseRunner, HarnessRun

UNSET = -2  # a world size: as many as there are devices


def adapt(player: CaseRunner) -> None:
    base = getattr(player.harness, "MultiProcContinuousTest", None)
    if base is not None and hasattr(base, "_ensure_processes_spawned"):
        _adapt_dispatched(player, base)
    elif base is not None and hasattr(base, "_worker_loop"):
        _adapt_dispatched(player, base)
        _adapt_class_spawn(base)
    elif (older := getattr(player.harness, "MultiProcContinousTest", base)) is not None:
        _adapt_in_place(player, older)


def _adapt_dispatched(player: CaseRunner, base: Any) -> None:
    """The test's method runs in workers, on an instance that was not set up; the dispatcher's is."""

    def ensure_processes_spawned(cls: Any) -> None:
        cls.processes, cls.task_queues, cls.completion_queues = [], [], []
        player.leave_groups_of_others(cls)
        cls.world_size = _world_size(cls)
        player.check_part(int(cls.world_size))
        _check_backend(cls)

    def run_or_wait(self: Any, test: Callable[..., Any]) -> types.MethodType:
        @wraps(test)
        def run(self: Any = self) -> None:
            if self.rank != base.MAIN_PROCESS_RANK:  # in the worker
                test()
                return
            cls = type(self)
            world_size = int(cls.world_size)

            def part() -> None:
                _join_group_of_class(player, cls, world_size)
                cls._run_test_given_id(self.id())

            player.play(HarnessRun(test=test, body=part, world_size=world_size))

        return types.MethodType(run, self)

    def tear_down_class(cls: Any) -> None:
        """There are no workers to be told."""
        player.leave_all_groups()
        super(base, cls).tearDownClass()

    base._ensure_processes_spawned = classmethod(ensure_processes_spawned)
    base._worker_run_main_wait = run_or_wait
    base.tearDownClass = classmethod(tear_down_class)


def _adapt_class_spawn(base: Any) -> None:
    """Torch 2.8 and 2.9 spawn when the class is set up."""

    def set_up_class(cls: Any) -> None:
        super(base, cls).setUpClass()
        cls._ensure_processes_spawned()

    base.setUpClass = classmethod(set_up_class)


def _adapt_in_place(player: CaseRunner, base: Any) -> None:
    """Each rank sets the class up and runs its methods, as under torchrun."""
    original = base.setUpClass.__func__

    def set_up_class(cls: Any) -> None:
        player.leave_all_groups()
        cls.world_size = _world_size(cls)
        player.check_part(int(cls.world_size))
        cls.rank, cls.rdvz_file = player.rank, player.shared_name()
        with player.bridge.open(int(cls.world_size), None):
            original(cls)
        player.generation.lasting_group = dist.group.WORLD

    base.setUpClass = classmethod(set_up_class)


def _join_group_of_class(player: CaseRunner, cls: Any, world_size: int) -> None:
    if player.generation.lasting_group is not None and player.class_of_group is cls:
        return
    player.leave_all_groups()
    cls.rank, cls.world_size = player.rank, world_size
    cls._init_pg(player.rank, world_size, player.shared_name())
    os.environ["LOCAL_RANK"] = str(player.generation.gang.local_rank)  # it takes all ranks to be on one node
    player.generation.lasting_group, player.class_of_group = dist.group.WORLD, cls


def _world_size(cls: Any) -> int:
    """A class has it as an attribute or as a property of its instances."""
    getter = getattr(inspect.getattr_static(cls, "world_size", None), "fget", None)
    found = getter(object.__new__(cls)) if getter else cls.world_size
    if int(found) != UNSET:
        return int(found)
    return int(torch.get_device_module(_device_type(cls)).device_count())


def _device_type(cls: Any) -> str:
    """A classmethod, a property that reads what belongs to the class, or a string."""
    if getter := getattr(inspect.getattr_static(cls, "device_type", None), "fget", None):
        return str(getter(cls))
    return str(cls.device_type() if callable(cls.device_type) else cls.device_type)


def _check_backend(cls: Any) -> None:
    backend = cls.backend_str() if callable(cls.backend_str) else cls.backend_str
    if backend is not None and ":" not in backend and not dist.is_backend_available(backend):
        raise unittest.SkipTest(f"backend {backend!r} is not available")
