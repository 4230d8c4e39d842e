"""Serves rendezvous by file, environment and TCP from the store of the generation: no shared files, no port conflicts.

Only while a case of the harness runs; at other times torch's own handlers and FileStore are in use.
"""

import contextlib
import importlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore, Store  # type: ignore[attr-defined]  # exported when run

from disttest_runner.process_group.generation import Generation

Rendezvous = tuple[Store, int, int]
Handler = Callable[..., Iterator[Rendezvous]]
_PARAMETERS = ("rank", "world_size")


class Bridge:
    """Replaces the rendezvous handlers; `_world_size` is that of the running case, None between cases."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._world_size: int | None = None
        self._rendezvous: Counter[str] = Counter()  # of this case, by scheme and path
        self._original = dist.FileStore  # type: ignore[attr-defined]  # exported when run
        self.file_store = _file_store(self)
        # torch.distributed.rendezvous is a function as well, which hides the module
        handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
        for scheme in ("file", "env", "tcp"):
            handlers[scheme] = self._handler(scheme, handlers[scheme])

    @contextlib.contextmanager
    def open(self, world_size: int, test_module: ModuleType | None) -> Iterator[None]:
        """Serve one case. Modules that have imported `FileStore` get ours meanwhile."""
        self._world_size = world_size
        self._rendezvous.clear()
        modules = [module for module in (dist, test_module) if getattr(module, "FileStore", None) is self._original]
        for module in modules:
            module.FileStore = self.file_store  # type: ignore[union-attr]  # the filter has dropped None
        try:
            yield
        finally:
            self._world_size = None
            for module in modules:
                module.FileStore = self._original  # type: ignore[union-attr]  # same

    def store(self, path: str) -> Store:
        """Return the store for a path; below the temporary folder, equal paths are one file on all nodes."""
        return self._generation.case_store(f"file/{path.removeprefix(tempfile.gettempdir())}")

    def _handler(self, scheme: str, original: Handler) -> Handler:
        def rendezvous(url: str, *args: Any, **kwargs: Any) -> Iterator[Rendezvous]:
            parts = urlsplit(url)
            query = {name: int(values[0]) for name, values in parse_qs(parts.query).items() if name in _PARAMETERS}
            if query.get("world_size") == 1 and scheme != "file":
                yield HashStore(), 0, 1  # alone: no port is needed
            elif self._world_size is None:
                yield from original(url, *args, **kwargs)
            else:
                key = f"{scheme}{parts.path.removeprefix(tempfile.gettempdir())}"
                self._rendezvous[key] += 1  # all ranks create the same number of groups
                store = self._generation.case_store(f"rendezvous/{key}/{self._rendezvous[key]}")
                rank = query.get("rank", self._generation.gang.rank)
                yield store, rank, query.get("world_size", int(os.environ.get("WORLD_SIZE", self._world_size)))

        return rendezvous


def _file_store(bridge: Bridge) -> type[Store]:
    class FileStore(PrefixStore):
        """Replaces torch's FileStore; equal paths are one store on all nodes."""

        def __init__(self, file_name: str, world_size: int = -1) -> None:
            del world_size  # users of the store count the ranks
            super().__init__("store", bridge.store(str(file_name)))
            self.path = file_name

    return FileStore
