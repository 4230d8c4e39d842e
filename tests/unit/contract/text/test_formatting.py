"""Short texts for people: the essence of a message, lists of names and of ranks."""

import tracemalloc

import pytest

from disttest_contract.text import formatting

PYTEST = """rank 3 on node-b:
gang = Gang()

    def test():
>       assert 1 == 2
E       assert 1 == 2
E         and more

t.py:3"""
SIGNAL = "rank 3 on node-b was killed by SIGSEGV during the case\n(rank 0 aborted because of it)"


@pytest.mark.parametrize(
    ("message", "line", "short"),
    [
        (PYTEST, "rank 3 on node-b: assert 1 == 2", "rank 3 on node-b:\nassert 1 == 2\nand more"),
        (SIGNAL, "rank 3 on node-b was killed by SIGSEGV during the case", SIGNAL),
        ("E   no\nwho?", "E   no", "E   no\nwho?"),
        ("Else it would be marked", "Else it would be marked", "Else it would be marked"),
        ("rank 3 on node-b:", "rank 3 on node-b:", "rank 3 on node-b:"),
        ("\n \n", "", "\n \n"),
        ("", "", ""),
    ],
    ids=["pytest", "other", "no first line", "no mark", "nothing was wrong", "blank", "nothing"],
)
def test_it_is_who_and_what_was_wrong(message: str, line: str, short: str) -> None:
    assert formatting.summary_line(message) == line
    assert formatting.short_message(message) == short


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (2000, "2000 nodes")])
def test_a_noun_is_in_the_plural_unless_there_is_one(number: int, text: str) -> None:
    assert formatting.counted(number, "node") == text


@pytest.mark.parametrize(("size", "text"), [((1, 4), "1 node x 4 ranks"), ((2, 1), "2 nodes x 1 rank")])
def test_the_size_of_a_gang_has_both_nouns_in_their_number(size: tuple[int, int], text: str) -> None:
    assert formatting.gang_size(*size) == text


@pytest.mark.parametrize(("names", "text"), [([], ""), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")])
def test_a_list_of_names_counts_those_that_it_leaves_out(names: list[str], text: str) -> None:
    assert formatting.listed(names, 2) == text


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
    with pytest.raises(ValueError, match="repeated or not in order"):
        formatting.read_ranks(",".join(["0-65535"] * 10_000))
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 16 << 20


@pytest.mark.parametrize("text", ["", "0-1", "1,2", "x", "-1", "65536", "9" * 5000])
def test_what_is_not_one_rank_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rank"):
        formatting.read_rank(text)
    assert formatting.read_rank("65535") == 65535
