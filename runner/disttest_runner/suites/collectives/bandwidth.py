"""How fast is every collective, and is what it delivers at that size right?

The time of a rank is the median of its calls; the leader takes the median over all ranks and names the slowest. Most
collectives end on all ranks when the slowest is done, so `send_recv_pair` times disjoint pairs of neighbours: a rank's
number is that of its faster pair, which reveals a slow rank and not its neighbours.
"""

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from disttest_contract.text.formatting import show_bytes
from disttest_runner.process_group import device
from disttest_runner.process_group.gang import Gang
from disttest_runner.process_group.generation import Generation
from disttest_runner.rank.fixtures import GANG, GENERATION
from disttest_runner.results.measurements import Sample, median
from disttest_runner.suites.collectives import operations, values
from disttest_runner.suites.collectives.arguments import (
    COUNTINGS,
    Arguments,
    InvalidArgumentError,
    elements_per_rank,
    pairings,
    partner_of,
)
from disttest_runner.suites.collectives.operations import Operation, Round

SHARE = 0.5  # of free memory: the rest is for NCCL, the check and other processes
pytestmark = pytest.mark.usefixtures("process_group")
Measure = Callable[[Sample], None]
PAIR = "send_recv_pair"


def time_calls(call: Callable[[], object], gang: Gang, iterations: int) -> list[float]:
    """Return the seconds of each call; ranks start together and then wait only inside the collective."""
    of_gang = device.of_backend(gang.backend)
    for _ in range(of_gang.warm_up_calls):
        call()
    dist.barrier()
    return of_gang.time_calls(call, iterations)


def usable_bytes(gang: Gang) -> int:
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    of_gang = device.of_backend(gang.backend)
    return int(of_gang.free_bytes(gang.device) * SHARE / of_gang.sharers(local_ranks))


def any_rank(generation: Generation, *, vote: bool) -> bool:
    """Whether at least one rank votes yes; uses the store, not the collectives under test. Once in a case."""
    store, seconds = generation.case_store("vote"), generation.order.case_seconds
    if vote:
        store.add("yes", 1)
    if store.add("voted", 1) == generation.order.world_size:
        store.set("all", "voted")
    store.wait(["all"], timedelta(seconds=seconds))
    return bool(store.add("yes", 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthSeries:
    dtype: torch.dtype
    size_bytes: int
    iterations: int

    def round(self, collective: str, gang: Gang, *, turn: int) -> Round:
        count = elements_per_rank(
            collective, size_bytes=self.size_bytes, element_bytes=self.dtype.itemsize, world_size=gang.world_size
        )
        return Round(gang=gang, dtype=self.dtype, count=count, turn=turn)

    def sample(self, collective: str, gang: Gang, *, seconds: float, wrong_elements: int) -> Sample:
        return Sample(
            collective=collective,
            dtype=values.names(self.dtype),
            size_bytes=self.size_bytes,
            iterations=self.iterations,
            bus_factor=COUNTINGS[collective].bus_factor(gang.world_size),
            seconds=seconds,
            wrong_elements=wrong_elements,
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize cases by the environment; an invalid value breaks the suite before anything is timed."""
    if "series" in metafunc.fixturenames:
        try:
            arguments = Arguments.read(os.environ, metafunc.config.stash[GANG].backend)
        except InvalidArgumentError as error:
            raise pytest.Collector.CollectError(str(error)) from error
        if "operation" in metafunc.fixturenames:
            metafunc.parametrize("operation", operations.ALL, ids=lambda operation: operation.name)
        metafunc.parametrize("series", list(all_series(arguments)))


def all_series(arguments: Arguments) -> Iterator[object]:
    for name in arguments.dtypes:
        for size_bytes in arguments.sizes_bytes:
            series = BandwidthSeries(dtype=getattr(torch, name), size_bytes=size_bytes, iterations=arguments.iterations)
            yield pytest.param(series, id=f"{name}-{show_bytes(size_bytes).replace(' ', '')}")


def test_bandwidth(
    request: pytest.FixtureRequest, gang: Gang, measure: Measure, operation: Operation, series: BandwidthSeries
) -> None:
    need_peers(gang)
    values.expect_gap(gang, series.dtype, operation.alone)
    it = series.round(operation.name, gang, turn=0)
    need_memory(request, operation, it)
    buffers = operation.buffers(it)
    seconds = time_calls(lambda: operation.call(it, buffers), gang, series.iterations)
    del buffers
    again = series.round(operation.name, gang, turn=1)  # other values: results of the timed calls are wrong now
    buffers = operation.buffers(again)
    operation.call(again, buffers)
    wrong, message = operation.count_wrong(again, buffers)
    measure(series.sample(operation.name, gang, seconds=median(seconds), wrong_elements=wrong))
    if wrong:
        pytest.fail(message, pytrace=False)


def test_bandwidth_of_pairs(
    request: pytest.FixtureRequest, gang: Gang, measure: Measure, series: BandwidthSeries
) -> None:
    need_peers(gang)
    ring = operations.BY_NAME["send_recv"]
    it, again = (series.round(PAIR, gang, turn=turn) for turn in values.TURNS)
    need_memory(request, ring, it)
    times: list[float] = []
    problems: list[str] = []
    wrong = 0
    for pairs in pairings(gang.world_size):
        partner = partner_of(gang.rank, pairs)
        buffers = ring.buffers(it)
        seconds = time_calls(operations.exchanging(buffers, partner), gang, series.iterations)
        if partner is not None:
            times.append(median(seconds))
            buffers = ring.buffers(again)
            operations.exchanging(buffers, partner)()
            more, message = values.count_wrong(buffers.taken, functools.partial(again.of, partner))
            wrong += more
            problems += [f"from rank {partner}: {message}"] if more else []
    measure(series.sample(PAIR, gang, seconds=min(times), wrong_elements=wrong))
    if wrong:
        pytest.fail("\n".join(problems), pytrace=False)


def need_peers(gang: Gang) -> None:
    if gang.world_size == 1:
        pytest.skip("not run: bandwidth needs two ranks")


def need_memory(request: pytest.FixtureRequest, operation: Operation, it: Round) -> None:
    """Skip the case on all ranks if the memory of one is too small, before any allocates it."""
    needed = it.count * operation.copies_held(it.gang.world_size) * it.dtype.itemsize
    short = needed > usable_bytes(it.gang)
    if any_rank(request.config.stash[GENERATION], vote=short):
        pytest.skip(
            f"not run: {operation.name} needs {needed / 2**30:.1f} GiB for the buffers of a rank, which is more than "
            "half of what is free for one on at least one node"
        )
