"""What of a message says most."""

import pytest

from disttest_contract.text import formatting

PYTEST = """rank 3 on node-b:
gang = Gang()

    def test():
>       assert 1 == 2
E       assert 1 == 2
E         and more

t.py:3"""
SIGNAL = "rank 3 on node-b was killed by SIGSEGV in mid-case\n(rank 0 aborted because of it)"


@pytest.mark.parametrize(
    ("message", "line", "short"),
    [
        (PYTEST, "rank 3 on node-b: assert 1 == 2", "rank 3 on node-b:\nassert 1 == 2\nand more"),
        (SIGNAL, "rank 3 on node-b was killed by SIGSEGV in mid-case", SIGNAL),
        ("E   no\nwho?", "E   no", "E   no\nwho?"),
        ("Else it would be marked", "Else it would be marked", "Else it would be marked"),
        ("rank 3 on node-b:", "rank 3 on node-b:", "rank 3 on node-b:"),
        ("\n \n", "", "\n \n"),
        ("", "", ""),
    ],
    ids=["pytest", "other", "no first line", "no mark", "nothing was wrong", "blank", "nothing"],
)
def test_it_is_who_and_what_was_wrong(message: str, line: str, short: str) -> None:
    assert formatting.who_and_what(message) == line
    assert formatting.short(message) == short
