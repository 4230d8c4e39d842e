"""Runs this rank's part of a case of torch's harness, and cleans up for the next case."""

import contextlib
import importlib
import os
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from disttest_runner.process_group.generation import STORE_SECONDS, Generation
from disttest_runner.upstream import rules
from disttest_runner.upstream.store_bridge import Bridge
from disttest_runner.upstream.torch_patches import GlooGroups

c10d: Any = dist  # its type stubs lack names


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
            match rules.read_exit(end.code, self._codes, traceback=part.pipe.text, accepts_any=part.accepts_any_exit):
                case rules.Skipped(message):
                    raise unittest.SkipTest(message) from None
                case rules.Failed(message):
                    raise AssertionError(message) from None
                case rules.ProcessEnd():
                    pass

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
