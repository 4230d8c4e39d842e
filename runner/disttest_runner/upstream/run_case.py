"""Runs this rank's part of a case of torch's harness: serves its rendezvous, and cleans up for the next case."""

import contextlib
import importlib
import os
import sys
import tempfile
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch
import torch.distributed as dist
from torch.distributed import HashStore, PrefixStore, Store  # type: ignore[attr-defined]  # exported when run

from disttest_runner.process_group.generation import STORE_SECONDS, Generation
from disttest_runner.upstream import rules
from disttest_runner.upstream.torch_patches import GlooGroups

c10d: Any = dist  # its type stubs lack names
Rendezvous = tuple[Store, int, int]
Handler = Callable[..., Iterator[Rendezvous]]
_PARAMETERS = ("rank", "world_size")


class Bridge:
    """Serves rendezvous by file, environment and TCP from the store of the generation: no files, no port conflicts.

    Only while a case runs, whose world size is `_world_size`; else torch's own handlers and FileStore are in use.
    """

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


class ResultPipe:
    """Replaces the pipe of a spawned process."""

    def __init__(self) -> None:
        self.text = ""

    def send(self, message: object) -> None:
        self.text += str(message)

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessRun:
    """What torch runs in a spawned process for `test`, a bound method."""

    test: Callable[..., Any]
    body: Callable[[], object]
    world_size: int
    pipe: ResultPipe = field(default_factory=ResultPipe)
    accepts_any_exit: bool = False


class CaseRunner:
    def __init__(self, generation: Generation, harness: ModuleType) -> None:
        self.generation, self.harness = generation, harness
        self.common_utils: Any = importlib.import_module("torch.testing._internal.common_utils")
        self.rank = generation.gang.rank
        self.bridge = Bridge(generation)
        self.class_of_group: type | None = None  # whose cases share the lasting group
        self._gloo_groups = GlooGroups()
        self._codes = rules.ExitCodes(
            skips={skip.exit_code: skip.message for skip in harness.TEST_SKIPS.values()},
            error=harness.MultiProcessTestCase.TEST_ERROR_EXIT_CODE,
        )

    def shared_name(self) -> str:
        """Return a path that is equal in all ranks and unique to the case; no file exists there."""
        order = self.generation.order
        name = f"disttest-{order.store_port}-{order.generation}-{self.generation.case}"
        return os.path.join(tempfile.gettempdir(), name)  # noqa: PTH118 - tests expect a string

    def check_part(self, world_size: int) -> None:
        order = self.generation.order
        if reason := rules.why_not(world_size, rank=order.rank, gang_size=order.world_size):
            raise unittest.SkipTest(reason)

    def run(self, part: HarnessRun) -> None:
        instance = getattr(part.test, "__self__", None)
        module = sys.modules.get(type(instance).__module__)
        with self.bridge.open(part.world_size, module), self._clean():
            os.environ["WORLD_SIZE"] = str(part.world_size)  # what decorators and tests read
            try:
                with self._exits_mapped(part):
                    rules.ask_decorators(part.test, instance)
                    self._run_body(part)
            except BaseException as error:
                if not isinstance(error, unittest.SkipTest):  # peers of a failed rank may still be in a collective
                    raise
                self.leave_groups()
                raise
            self.leave_groups()

    def _run_body(self, part: HarnessRun) -> None:
        if not rules.is_expected(part.test):
            part.body()
            return
        generation = self.generation
        store, seconds = generation.case_store("expected"), generation.order.case_seconds
        rules.run_expected_failure(part.body, store, rank=self.rank, world_size=part.world_size, seconds=seconds)

    @contextlib.contextmanager
    def _exits_mapped(self, part: HarnessRun) -> Iterator[None]:
        try:
            yield
        except SystemExit as end:
            code, text, accepts_any = end.code, part.pipe.text, part.accepts_any_exit
            error = rules.read_exit(code, self._codes, traceback=text, accepts_any=accepts_any)
            if error is not None:
                raise error from None

    @contextlib.contextmanager
    def _clean(self) -> Iterator[None]:
        """Reset torch's own state; the rank restores environment, directory, seeds and such after every case."""
        level = c10d.get_debug_level()
        try:
            yield
        finally:
            if c10d.get_debug_level() is not level:
                c10d.set_debug_level(level)
            if "torch._dynamo.convert_frame" in sys.modules:
                torch._dynamo.reset()  # takes microseconds if it was not used
            # a group sets its timeout on the store that it uses
            self.generation.store.set_timeout(timedelta(seconds=STORE_SECONDS))

    def leave_groups(self) -> None:
        """Destroy the groups that the case made, except for one that its class keeps."""
        if dist.is_initialized() and dist.group.WORLD is not self.generation.lasting_group:
            dist.destroy_process_group()
        if not dist.is_initialized():
            self._gloo_groups.close_later()

    def leave_groups_of_others(self, cls: type) -> None:
        if self.generation.lasting_group is None or self.class_of_group is not cls:
            self.leave_all_groups()

    def leave_all_groups(self) -> None:
        """Leave the gang's group before a case that makes its own; all ranks call it, even without a part."""
        self.generation.leave_group()
        if dist.is_initialized():
            dist.destroy_process_group()
        self.generation.lasting_group = None
        self._gloo_groups.close_later()
