"""How fast is every collective, and is what it delivers at that size right?

One call takes as long as the median of a rank's calls; the leader takes the median of all ranks and names the slowest.
Since most collectives end for everybody when the slowest rank is done, `send_recv_pair` times disjoint pairs of
neighbours: a rank's number there is that of its faster pair, so a slow rank stands out and its neighbours do not.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist

from disttest_contract.text.formatting import show_bytes
from disttest_runner.process_group import device
from disttest_runner.process_group.gang import Gang
from disttest_runner.rank.fixtures import GANG
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

WARM_UP = {"gloo": 2, "nccl": 5}  # calls: the first of a size, type and group sets connections and channels up
SHARE = 0.5  # of what is free: the rest is for NCCL, the check, and whoever else needs some


def time_calls(call: Callable[[], object], gang: Gang, iterations: int) -> list[float]:
    """All ranks start together, then nobody waits for anybody but the collective itself."""
    for _ in range(WARM_UP[gang.backend]):
        call()
    dist.barrier()
    return device.of_backend(gang.backend).time_calls(call, iterations)


def usable_bytes(gang: Gang) -> int:
    """What the buffers of this rank may take."""
    local_ranks = int(os.environ["LOCAL_WORLD_SIZE"])
    of_gang = device.of_backend(gang.backend)
    return int(of_gang.free_bytes(gang.device) * SHARE / of_gang.sharers(local_ranks))


def anybody(name: str, gang: Gang, *, says_so: bool) -> bool:
    """Whether at least one rank says so, agreed on without the collectives that are being checked."""
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001 - what the ranks have met at
    if says_so:
        store.add(f"{name}/yes", 1)
    if store.add(f"{name}/voted", 1) == gang.world_size:
        store.set(f"{name}/all", "voted")
    store.wait([f"{name}/all"])
    return bool(store.add(f"{name}/yes", 0))


pytestmark = pytest.mark.usefixtures("process_group")

Measure = Callable[[Sample], None]
PAIR = "send_recv_pair"


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthSeries:
    """What one case times."""

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
    """The environment says what is timed; a value that it cannot have ends the suite before anything is timed."""
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
    again = series.round(operation.name, gang, turn=1)  # other values: nothing left of the timed calls is right now
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
            more, message = wrong_from(partner, again, buffers.taken)
            wrong += more
            problems += [f"from rank {partner}: {message}"] if more else []
    measure(series.sample(PAIR, gang, seconds=min(times), wrong_elements=wrong))
    if wrong:
        pytest.fail("\n".join(problems), pytrace=False)


def wrong_from(sender: int, it: Round, got: torch.Tensor) -> tuple[int, str]:
    return values.count_wrong(got, lambda count, offset: it.of(sender, count, offset))


def need_peers(gang: Gang) -> None:
    if gang.world_size == 1:
        pytest.skip("not run: bandwidth needs two ranks")


def need_memory(request: pytest.FixtureRequest, operation: Operation, it: Round) -> None:
    """All ranks decide alike, before any of them takes memory."""
    needed = it.count * operation.copies_held(it.world_size) * it.dtype.itemsize
    short = needed > usable_bytes(it.gang)
    if anybody(request.node.name, it.gang, says_so=short):
        pytest.skip(
            f"not run: {operation.name} needs {needed / 2**30:.1f} GiB for the buffers of a rank, which is more than "
            "half of what is free for one on at least one node"
        )
