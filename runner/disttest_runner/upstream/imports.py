"""Calls back when a module has been imported, so that nobody pays for what no suite asks for."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest

from disttest_runner.compat import override

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
