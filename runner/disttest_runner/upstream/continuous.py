"""Adapts MultiProcContinuousTest and its subclasses: one process group for all cases of a class.

Torch 2.7 spells it with one n less and has no workers: there each rank sets the class up, as under torchrun.
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

UNSET = -2  # a world size: the number of devices


def adapt(runner: CaseRunner) -> None:
    base = getattr(runner.harness, "MultiProcContinuousTest", None)
    if base is not None and hasattr(base, "_ensure_processes_spawned"):
        _adapt_dispatched(runner, base)
    elif base is not None and hasattr(base, "_worker_loop"):
        _adapt_dispatched(runner, base)
        _adapt_class_spawn(base)
    elif (older := getattr(runner.harness, "MultiProcContinousTest", base)) is not None:
        _adapt_in_place(runner, older)


def _adapt_dispatched(runner: CaseRunner, base: Any) -> None:
    """Workers run the test's method on an instance without set-up; only the dispatcher's instance is set up."""

    def ensure_processes_spawned(cls: Any) -> None:
        cls.processes, cls.task_queues, cls.completion_queues = [], [], []
        runner.leave_groups_of_others(cls)
        cls.world_size = _world_size(cls)
        runner.check_part(int(cls.world_size))
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
                _join_group_of_class(runner, cls, world_size)
                cls._run_test_given_id(self.id())

            runner.run(HarnessRun(test=test, body=part, world_size=world_size))

        return types.MethodType(run, self)

    def tear_down_class(cls: Any) -> None:
        runner.leave_all_groups()
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


def _adapt_in_place(runner: CaseRunner, base: Any) -> None:
    original = base.setUpClass.__func__

    def set_up_class(cls: Any) -> None:
        runner.leave_all_groups()
        cls.world_size = _world_size(cls)
        runner.check_part(int(cls.world_size))
        cls.rank, cls.rdvz_file = runner.rank, runner.shared_name()
        with runner.bridge.open(int(cls.world_size), None):
            original(cls)
        runner.generation.lasting_group = dist.group.WORLD

    base.setUpClass = classmethod(set_up_class)


def _join_group_of_class(runner: CaseRunner, cls: Any, world_size: int) -> None:
    if runner.generation.lasting_group is not None and runner.class_of_group is cls:
        return
    runner.leave_all_groups()
    cls.rank, cls.world_size = runner.rank, world_size
    cls._init_pg(runner.rank, world_size, runner.shared_name())
    os.environ["LOCAL_RANK"] = str(runner.generation.gang.local_rank)  # _init_pg assumes that all ranks are on one node
    runner.generation.lasting_group, runner.class_of_group = dist.group.WORLD, cls


def _world_size(cls: Any) -> int:
    """Read an attribute of the class or a property of its instances."""
    getter = getattr(inspect.getattr_static(cls, "world_size", None), "fget", None)
    found = getter(object.__new__(cls)) if getter else cls.world_size
    if int(found) != UNSET:
        return int(found)
    return int(torch.get_device_module(_device_type(cls)).device_count())


def _device_type(cls: Any) -> str:
    """Read a classmethod, a property that needs the class only, or a string."""
    if getter := getattr(inspect.getattr_static(cls, "device_type", None), "fget", None):
        return str(getter(cls))
    return str(cls.device_type() if callable(cls.device_type) else cls.device_type)


def _check_backend(cls: Any) -> None:
    backend = cls.backend_str() if callable(cls.backend_str) else cls.backend_str
    if backend is not None and ":" not in backend and not dist.is_backend_available(backend):
        raise unittest.SkipTest(f"backend {backend!r} is not available")
