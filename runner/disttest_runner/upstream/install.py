"""Puts the adapter in place as soon as a suite, or the zygote before it, has imported torch's harness."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from disttest_runner.compat import override
from disttest_runner.upstream import torch_patches

Callback = Callable[[ModuleType], None]


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

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            callback(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]  # of this one loader only
        return spec


_finder = _Finder()


class ImportOrder:
    """A pytest plugin: keeps our finder before that of pytest, which rewrites modules with names of test files."""

    @pytest.hookimpl(tryfirst=True)  # before conftest.py files are imported
    def pytest_load_initial_conftests(self) -> None:
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
            sys.meta_path.insert(0, _finder)


def when_imported(name: str, callback: Callback) -> None:
    """At once if it was imported already."""
    if (module := sys.modules.get(name)) is not None:
        callback(module)
        return
    _finder.callbacks[name] = callback
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


if TYPE_CHECKING:
    from disttest_runner.process_group.generation import Generation
    from disttest_runner.upstream.run_case import CaseRunner

HARNESS = "torch.testing._internal.common_distributed"
SPAWN_DRIVER = "torch.testing._internal.distributed.distributed_test"


def install(generation: "Generation") -> None:
    """In a rank, before it collects."""

    def adapt(harness: ModuleType) -> None:
        # Imported late: a plain suite pays for nothing of this.
        from disttest_runner.upstream import continuous, test_classes, torch_patches  # noqa: PLC0415
        from disttest_runner.upstream.run_case import CaseRunner  # noqa: PLC0415

        player = CaseRunner(generation, harness)
        torch_patches.adapt_seeding(player.common_utils)
        test_classes.adapt_multi_process(player)
        continuous.adapt(player)
        test_classes.adapt_multi_threaded(player)
        players.append(player)

    def adapt_driver(driver: ModuleType) -> None:
        from disttest_runner.upstream import test_classes  # noqa: PLC0415

        test_classes.adapt_spawn_driver(players[0], driver)

    players: list[CaseRunner] = []
    when_imported(HARNESS, adapt)
    when_imported(SPAWN_DRIVER, adapt_driver)  # it imports the harness, which is adapted while it is only half there
    when_imported(torch_patches.RPC, lambda module: torch_patches.adapt_rpc(generation, module))
