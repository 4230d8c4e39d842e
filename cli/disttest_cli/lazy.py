"""Modules that are imported when something of them is first used: `--help` and wrong arguments need few of them."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType


def module(name: str) -> ModuleType:
    """Raises ModuleNotFoundError at once, as an import does, where it is not installed."""
    there = sys.modules.get(name)
    if there is not None:
        return there
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    spec.loader = LazyLoader(spec.loader)
    made = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(made)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, made)
    return made
