"""Ranks in few words."""

import tracemalloc

import pytest

from disttest_contract.text import formatting


@pytest.mark.parametrize(
    ("some", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1), "0-1"),
        ((3, 0, 8, 1, 2), "0-3,8"),
        ((7, 7, 9), "7,9"),
        (tuple(range(4096)), "0-4095"),
    ],
)
def test_ranks_are_shown_once_and_in_order_and_come_back(some: tuple[int, ...], text: str) -> None:
    assert formatting.show_ranks(some) == text
    assert formatting.read_ranks(text) == tuple(sorted(set(some)))


@pytest.mark.parametrize("text", ["x", "1-", "-1", "3-1", "1,1", "5,2", "0-99999999", "1 2", "1,,2", "٣", "9" * 5000])
def test_what_is_no_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rank"):
        formatting.read_ranks(text)


def test_ranks_that_are_named_again_and_again_are_refused_at_the_second_time() -> None:
    tracemalloc.start()
    with pytest.raises(ValueError, match="named before"):
        formatting.read_ranks(",".join(["0-65535"] * 10_000))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 16 << 20


@pytest.mark.parametrize("text", ["", "0-1", "1,2", "x", "-1", "65536", "9" * 5000])
def test_what_is_not_one_rank_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rank"):
        formatting.read_rank(text)
    assert formatting.read_rank("65535") == 65535
