"""What the suite `collectives` times: read from its environment, counted as nccl-tests do."""

import re

import pytest

from disttest_contract.results.measurement import COLLECTIVES
from disttest_runner.suites.collectives import arguments
from disttest_runner.suites.collectives.arguments import (
    GIB,
    KIB,
    MIB,
    Arguments,
    InvalidArgumentError,
)


def test_the_environment_says_what_is_timed() -> None:
    environ = {
        "COLLECTIVES_SIZES": "512, 4K,64M ,1G",
        "COLLECTIVES_DTYPES": "bfloat16,float32",
        "COLLECTIVES_ITERATIONS": "7",
    }
    assert Arguments.read(environ, "nccl") == Arguments(
        sizes_bytes=(512, 4 * KIB, 64 * MIB, GIB), dtypes=("bfloat16", "float32"), iterations=7
    )


def test_what_is_not_set_fits_the_backend() -> None:
    on_cpu, on_gpus = Arguments.read({}, "gloo"), Arguments.read({}, "nccl")
    assert max(on_cpu.sizes_bytes) <= 4 * MIB
    assert max(on_gpus.sizes_bytes) == GIB
    assert Arguments.read({"COLLECTIVES_SIZES": "8"}, "gloo").dtypes == on_cpu.dtypes


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("SIZES", "", "has the invalid size ''. Write bytes from 1 to 64G"),
        ("SIZES", "1M,", "has the invalid size ''"),
        ("SIZES", "0", "has the invalid size '0'"),
        ("SIZES", "-1", "has the invalid size '-1'"),
        ("SIZES", "1.5G", "has the invalid size '1.5G'"),
        ("SIZES", "1m", "has the invalid size '1m'"),
        ("SIZES", "1MB", "has the invalid size '1MB'"),
        ("SIZES", "65G", "as in COLLECTIVES_SIZES=1M,64M,1G"),
        ("SIZES", "99999999999999", "has the invalid size"),
        ("SIZES", "1M;2M", "commas between them"),
        ("SIZES", "1M,1024K", "contains '1024K' twice"),
        ("SIZES", ",".join(map(str, range(1, 18))), "has 17 values, more than the limit of 16"),
        ("DTYPES", "fp32", "has the invalid type 'fp32'. Write some of float32, bfloat16"),
        ("DTYPES", "float32,float32", "contains 'float32' twice"),
        ("DTYPES", "", "has the invalid type ''"),
        ("ITERATIONS", "0", "is '0'. Write a number from 1 to 100000"),
        ("ITERATIONS", "many", "is 'many'"),
        ("ITERATIONS", "100001", "is '100001'"),
        ("ITERATIONS", "", "is ''"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_write(name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(words)) as caught:
        Arguments.read({f"COLLECTIVES_{name}": text}, "gloo")
    assert f"COLLECTIVES_{name}" in str(caught.value)


@pytest.mark.parametrize(
    ("collective", "factor", "elements"),
    [
        ("all_reduce", 1.75, 256),
        ("all_gather", 0.875, 32),
        ("reduce_scatter", 0.875, 32),
        ("all_to_all", 0.875, 32),
        ("gather", 0.875, 32),
        ("scatter", 0.875, 32),
        ("broadcast", 1, 256),
        ("reduce", 1, 256),
        ("send_recv", 1, 256),
        ("send_recv_pair", 1, 256),
    ],
)
def test_sizes_and_factors_are_those_of_nccl_tests(collective: str, factor: float, elements: int) -> None:
    assert arguments.COUNTINGS[collective].bus_factor(8) == factor
    assert arguments.elements_per_rank(collective, size_bytes=1024, element_bytes=4, world_size=8) == elements


def test_elements_are_rounded_up() -> None:
    """Else the bandwidth of bytes that never moved would be reported."""
    assert arguments.elements_per_rank("all_gather", size_bytes=1000, element_bytes=8, world_size=3) == 42
    assert arguments.elements_per_rank("all_gather", size_bytes=8, element_bytes=4, world_size=512) == 1


def test_thresholds_can_name_every_collective_and_no_other() -> None:
    assert set(arguments.COUNTINGS) == set(COLLECTIVES)


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 8, 9, 64])
def test_every_link_of_the_ring_is_timed_once_and_nobody_is_in_two_pairs(world_size: int) -> None:
    rounds = arguments.pairings(world_size)
    assert len(rounds) == (1 if world_size == 2 else 2 + world_size % 2)
    for pairs in rounds:
        ranks = [rank for pair in pairs for rank in pair]
        assert len(ranks) == len(set(ranks))
    links = sorted(tuple(sorted(pair)) for pairs in rounds for pair in pairs)
    assert links == sorted({tuple(sorted((rank, (rank + 1) % world_size))) for rank in range(world_size)})


def test_a_partner_is_the_other_one_of_a_pair() -> None:
    assert [arguments.partner_of(rank, ((0, 1), (3, 2))) for rank in range(5)] == [1, 0, 3, 2, None]
