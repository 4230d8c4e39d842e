"""Installs the adapters as soon as a suite, or the zygote before it, imports torch's harness."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from disttest_runner.compat import override
from disttest_runner.upstream import torch_patches
from disttest_runner.upstream.rules import HARNESS

if TYPE_CHECKING:
    from disttest_runner.process_group.generation import Generation
    from disttest_runner.upstream.run_case import CaseRunner

Callback = Callable[[ModuleType], None]
SPAWN_DRIVER = "torch.testing._internal.distributed.distributed_test"


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.callbacks: dict[str, Callback] = {}

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.callbacks:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        callback, execute = self.callbacks.pop(fullname), spec.loader.exec_module

        def execute_and_call_back(module: ModuleType) -> None:
            execute(module)
            callback(module)

        spec.loader.exec_module = execute_and_call_back  # type: ignore[method-assign]  # of this one loader only
        return spec


_finder = _Finder()


class ImportOrder:
    """A pytest plugin that keeps our finder before pytest's, which loads modules with names of test files itself."""

    @pytest.hookimpl(tryfirst=True)  # before conftest.py files are imported
    def pytest_load_initial_conftests(self) -> None:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
            sys.meta_path.insert(0, _finder)


def when_imported(name: str, callback: Callback) -> None:
    """Call back after the module is executed; at once if it was imported already."""
    if (module := sys.modules.get(name)) is not None:
        callback(module)
        return
    _finder.callbacks[name] = callback
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def install(generation: "Generation") -> None:
    def adapt(harness: ModuleType) -> None:
        # Imported late, so that other suites do not load them.
        from disttest_runner.upstream import continuous, test_classes, torch_patches  # noqa: PLC0415
        from disttest_runner.upstream.run_case import CaseRunner  # noqa: PLC0415

        torch_patches.adapt_skips(harness, generation.order.world_size)
        runner = CaseRunner(generation, harness)
        torch_patches.adapt_seeding(runner.common_utils)
        test_classes.adapt_multi_process(runner)
        continuous.adapt(runner)
        test_classes.adapt_multi_threaded(runner)
        runners.append(runner)

    def adapt_driver(driver: ModuleType) -> None:
        from disttest_runner.upstream import test_classes  # noqa: PLC0415

        test_classes.adapt_spawn_driver(runners[0], driver)

    runners: list[CaseRunner] = []
    when_imported(HARNESS, adapt)
    when_imported(SPAWN_DRIVER, adapt_driver)  # imports the harness, which is adapted meanwhile
    when_imported(torch_patches.RPC, lambda module: torch_patches.adapt_rpc(generation, module))
