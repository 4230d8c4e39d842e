"""Modules that are imported on first use, which keeps `--help` and wrong arguments fast."""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["module", "yaml"]


def module(name: str) -> ModuleType:
    """Raises ModuleNotFoundError immediately, like an import, if the module is not installed."""
    imported = sys.modules.get(name)
    if imported is not None:
        return imported
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


if TYPE_CHECKING:
    import yaml
else:
    yaml = module("yaml")
