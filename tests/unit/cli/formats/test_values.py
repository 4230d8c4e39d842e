import math

import pytest
from markupsafe import Markup

from disttest_cli.formats import values
from disttest_cli.formats.html import page


def test_foreign_text_is_made_harmless_and_its_lines_stay() -> None:
    assert page.clean("tab\tand\nline\x1b[31m") == "tab\tand\nline\\x1b[31m"


@pytest.mark.parametrize("value", [7, 1.5, None, Markup("<b>\x07</b>")])
def test_only_foreign_text_is_touched(value: object) -> None:
    assert page.clean(value) is value


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0.00 s"),
        (0.0512, "0.05 s"),
        (12.44, "12.4 s"),
        (300.02, "5 min 00 s"),
        (771.7, "12 min 51 s"),
        (11_100, "3 h 05 min"),
        (-1.0, "unknown"),
        (math.nan, "unknown"),
        (math.inf, "unknown"),
        (1e300, "unknown"),
        (None, "unknown"),
    ],
)
def test_durations_are_short_and_never_nonsense(seconds: float | None, shown: str) -> None:
    assert values.duration(seconds) == shown


def test_moments_are_in_utc_or_unknown() -> None:
    assert values.show_moment(1_772_157_723.4) == "2026-02-27 02:02:03 UTC"
    assert [values.show_moment(wrong) for wrong in (math.nan, -5.0, 1e300, 9e11, None)] == ["unknown"] * 5


@pytest.mark.parametrize(
    ("ranks", "nodes", "shown"),
    [
        ((), (), ""),
        ((9,), ("b",), "rank 9 on b"),
        ((8, 9, 10), ("a", "b"), "ranks 8-10 on a, b"),
        ((), tuple("abcdefghij"), "on a, b, c, d, e, f, g, h and 2 more"),
        ("0-3,7", ("b" * 100,), f"ranks 0-3,7 on {'b' * 61}…"),
    ],
)
def test_where_it_happened_is_said_in_few_words(
    ranks: tuple[int, ...] | str, nodes: tuple[str, ...], shown: str
) -> None:
    assert values.where(ranks, nodes) == shown


def test_a_long_list_of_ranks_is_cut() -> None:
    shown = values.where(range(0, 400, 2), (), limit_bytes=60)
    assert shown.startswith("ranks 0,2,4,")
    assert shown.endswith("…")
    assert len(shown.encode()) <= 60 + len("ranks ")
