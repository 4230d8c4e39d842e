"""Runs cases of built-in suites as one rank of a world that does not exist, with fake tensors on a pretended GPU.

`python -m tests.support.gangs.dry_run` reads tasks as JSON lines and writes the outcomes of each as a line. Each task
runs in a fork of a process that has imported what the suites need.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore, Store  # type: ignore[attr-defined]  # exported when run

from disttest_contract.gang.plan import SuitePlan
from disttest_runner.cases import preload, sources
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.compat import override
from disttest_runner.process_group import device
from disttest_runner.process_group.generation import Generation
from disttest_runner.rank import rank, session
from disttest_runner.rank.fixtures import Fixtures
from tests.support.gangs import dry_device
from tests.support.gangs.dry_device import Replacement, same_kind

RANKS_PER_NODE = 8
SUITES = "disttest_runner.suites"
SHOWN = 600  # characters of an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    suite: str
    world_size: int
    rank: int
    select: str = ""
    plant: str = ""  # of PLANTS


@dataclass(frozen=True, slots=True)
class Outcome:
    word: str
    message: str = ""


def _count_none(original: Any) -> Any:
    def count_wrong(got: torch.Tensor, expected: Callable[[int, int], torch.Tensor]) -> tuple[int, str]:
        from disttest_runner.suites.collectives import values  # noqa: PLC0415 - imported by pytest in the child only

        for offset in range(0, len(got), values.SLICE):
            part = got[offset : offset + values.SLICE]
            same_kind("elements", part.double(), expected(len(part), offset).double())
        return 0, ""

    return count_wrong


def _compare_kind(original: Any) -> Any:
    def compare(what: str, mine: torch.Tensor, expected: torch.Tensor) -> list[str]:
        try:
            same_kind(what, mine, expected)
        except (AssertionError, AttributeError) as error:  # not a tensor
            return [f"{what}: {error}"]
        return []

    return compare


# The only assertions of suites that are switched off. Each still compares shapes, types and devices.
NO_VALUES = "fake tensors have no values"
ASSERTIONS = (
    Replacement(
        module=f"{SUITES}.reference",
        name="same",
        by=lambda _: lambda what, mine, expected, **_: same_kind(what, mine, expected),
        reason=NO_VALUES,
    ),
    Replacement(module=f"{SUITES}.collectives.values", name="count_wrong", by=_count_none, reason=NO_VALUES),
    Replacement(module=f"{SUITES}.pipeline.training", name="_compare", by=_compare_kind, reason=NO_VALUES),
)

# Faults to plant, each of which must make a case fail.
PLANTS: Mapping[str, Replacement] = {
    "a buffer without device=": Replacement(
        module=f"{SUITES}.collectives.values",
        name="untouched",
        by=lambda _: lambda count, _, dtype: torch.full((count,), 99.0).to(dtype),
        reason="it is on the CPU",
    ),
    "positions without device=": Replacement(
        module=f"{SUITES}.collectives.values",
        name="positions",
        by=lambda _: lambda count, _, offset=0: torch.arange(offset, offset + count),
        reason="they are on the CPU",
    ),
    "buffers for one rank more": Replacement(
        module=f"{SUITES}.collectives.operations",
        name="Round.everything",
        by=lambda _: property(lambda it: it.count * (it.gang.world_size + 1)),
        reason="the world size is wrong",
    ),
    "a gang of one rank more": Replacement(
        module="disttest_runner.process_group.generation",
        name="Gang",
        by=lambda gang: lambda **fields: gang(**{**fields, "world_size": fields["world_size"] + 1}),
        reason="the world size is wrong",
    ),
    "batches on the first GPU": Replacement(
        module=f"{SUITES}.reference",
        name="batches",
        by=lambda draw: lambda *args, **named: [one.to("cuda:0") for one in draw(*args, **named)],
        reason="that GPU is of another rank",
    ),
    "shards of half of the ranks": Replacement(
        module=f"{SUITES}.reference",
        name="my_shard",
        by=lambda _: lambda whole, gang: torch.chunk(whole, gang.world_size // 2)[gang.rank % 2],
        reason="the world size is wrong",
    ),
    "data of a pipeline on the CPU": Replacement(
        module=f"{SUITES}.pipeline.training",
        name="draw",
        by=lambda draw: lambda *args: tuple(one.cpu() for one in draw(*args)),
        reason="it is on the CPU",
    ),
}


class AgreeingStore(HashStore):
    """Answers as if all ranks did the same."""

    def __init__(self, world_size: int) -> None:
        super().__init__()
        self._world_size = world_size
        self._counts: dict[str, int] = {}

    @override
    def add(self, key: str, amount: int) -> int:
        self._counts[key] = self._counts.get(key, 0) + amount * self._world_size
        return self._counts[key]

    @override
    def wait(self, *_: Any) -> None:
        pass


class DryGeneration(Generation):
    @override
    def process_group(self) -> dist.ProcessGroup:
        order = self.order
        if not dist.is_initialized():
            device.of_backend(order.backend).bind(self.gang.device)
            # without device_id: torch would split groups, which the fake one cannot
            dist.init_process_group("fake", store=HashStore(), rank=order.rank, world_size=order.world_size)
        group = dist.group.WORLD
        assert group is not None
        return group

    @override
    def case_store(self, _: str) -> Store:
        return AgreeingStore(self.order.world_size)


class Outcomes:
    """A pytest plugin that runs cases in a mode and keeps their outcomes."""

    def __init__(self, mode: dry_device.RankMode) -> None:
        self._mode = mode
        self.found: dict[str, Outcome] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Any:
        with self._mode:
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = session.classify(report)
        if found is not None and report.nodeid not in self.found:
            word, message = found
            errors = [line[1:].strip() for line in message.splitlines() if line.startswith("E ")]
            self.found[report.nodeid] = Outcome(str(word), (" ".join(errors) or message)[:SHOWN])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.found[report.nodeid] = Outcome("errored", report.longreprtext[-SHOWN:])


def run(task: Task) -> dict[str, Outcome]:
    """Run a task in this process, which is of no use afterwards."""
    order = RankOrder(
        rank=task.rank,
        local_rank=task.rank % RANKS_PER_NODE,
        node_index=task.rank // RANKS_PER_NODE,
        world_size=task.world_size,
        ranks_per_node=RANKS_PER_NODE,
        generation=1,
        backend="nccl",
        case_seconds=60,
        store_host="127.0.0.1",
        store_port=1,
        suite=SuitePlan(name=task.suite, builtin=task.suite, select=task.select),
    )
    for replacement in (*dry_device.OF_TORCH, *ASSERTIONS, *([PLANTS[task.plant]] if task.plant else [])):
        replacement.apply()
    generation = DryGeneration(order, None)
    generation.enter()
    outcomes = Outcomes(dry_device.RankMode(generation.gang.device))
    plugins = [Fixtures(generation), outcomes]
    code = pytest.main([*rank.OPTIONS, *sources.pytest_arguments(order.suite)], plugins=plugins)
    if not outcomes.found:
        outcomes.found["pytest"] = Outcome("errored", f"exit code {code} without a case")
    return outcomes.found


def main() -> None:
    tasks = [Task(**json.loads(line)) for line in sys.stdin]
    builtin = dict.fromkeys(task.suite for task in tasks)
    suites = [SuitePlan(name=name, builtin=name) for name in builtin]
    preload.import_modules(dict.fromkeys(module for suite in suites for module in preload.modules_of_suite(suite)))
    for task in tasks:
        pid = os.fork()
        if pid == 0:
            _answer(task)
        os.waitpid(pid, 0)


def _answer(task: Task) -> None:
    """Write the outcomes to the descriptor that cases do not write to, and end without torch's clean-up."""
    output = os.dup(1)
    os.dup2(2, 1)
    code = 1
    try:
        found = {case_id: asdict(outcome) for case_id, outcome in run(task).items()}
        with os.fdopen(output, "w") as stream:
            print(json.dumps({"task": asdict(task), "outcomes": found}), file=stream)
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here in any case
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import torch.testing._internal.distributed.fake_pg

    main()
