"""Answers file, address and port rendezvous by the store of the generation: no shared files, no port that is taken.

Only while a case of the harness is being played: elsewhere a FileStore is one.
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

Meeting = tuple[Store, int, int]
Handler = Callable[..., Iterator[Meeting]]


class Bridge:
    """`world_size` is that of the case in play, None between cases."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._world_size: int | None = None
        self._meetings: Counter[str] = Counter()  # of this case, by their kind and path
        self._original = dist.FileStore  # type: ignore[attr-defined]  # exported when run
        self.file_store = _file_store(self)
        # torch.distributed.rendezvous is a function as well, which hides the module
        handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
        for scheme in ("file", "env", "tcp"):
            handlers[scheme] = self._handler(scheme, handlers[scheme])

    @contextlib.contextmanager
    def open(self, world_size: int, test_module: ModuleType | None) -> Iterator[None]:
        """For one case. Modules that have taken the name `FileStore` are given ours meanwhile."""
        self._world_size = world_size
        self._meetings.clear()
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
        """What lies below a node's own temporary folder is one file to all nodes."""
        return self._generation.case_store(f"file/{path.removeprefix(tempfile.gettempdir())}")

    def _handler(self, scheme: str, original: Handler) -> Handler:
        def meet(url: str, *args: Any, **kwargs: Any) -> Iterator[Meeting]:
            parts = urlsplit(url)
            asked = {name: int(values[0]) for name, values in parse_qs(parts.query).items() if name in _ASKED}
            if asked.get("world_size") == 1 and scheme != "file":
                yield HashStore(), 0, 1  # alone: a port could only be taken already
            elif self._world_size is None:
                yield from original(url, *args, **kwargs)
            else:
                key = f"{scheme}{parts.path.removeprefix(tempfile.gettempdir())}"
                self._meetings[key] += 1  # all ranks make equally many groups, as ever
                store = self._generation.case_store(f"meeting/{key}/{self._meetings[key]}")
                rank = asked.get("rank", self._generation.gang.rank)
                yield store, rank, asked.get("world_size", int(os.environ.get("WORLD_SIZE", self._world_size)))

        return meet


_ASKED = ("rank", "world_size")


def _file_store(bridge: Bridge) -> type[Store]:
    class FileStore(PrefixStore):
        """Takes what torch's own takes; equal paths are one store on all nodes."""

        def __init__(self, file_name: str, world_size: int = -1) -> None:
            del world_size  # who waits for all ranks counts them
            super().__init__("store", bridge.store(str(file_name)))
            self.path = file_name

    return FileStore
