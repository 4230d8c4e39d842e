"""What may be shown of what others wrote: docs/operating/security.md, "Escaping"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disttest_contract.text import escaping
from tests.support.reports.hostile import forbidden

HOSTILE = st.text(
    st.one_of(
        st.characters(),  # halves of characters too
        st.sampled_from("\0\t\n\r\x1b\x7f\x85\x9b\u034f\u0301\u200b\u202e\u2028\u2066\u2800\u3164\ufeff\ufe0f\uffff"),
        st.sampled_from(":#[] avso"),
    )
)

SPELLED = [
    ("\x1b[2J\x07", r"\x1b[2J\x07"),
    ("null\x00 back\x08", r"null\x00 back\x08"),
    ("\x7f\x9b31m", r"\x7f\x9b31m"),
    ("\x1b]8;;https://example.invalid\x1b\\link", r"\x1b]8;;https://example.invalid\x1b" + "\\link"),
    ("user\u202etxt.exe\u202c", r"user\u202etxt.exe\u202c"),
    ("\u2066a\u2069\u061c", r"\u2066a\u2069\u061c"),
    ("zero\u200bwidth\u200d\ufeff\xad", r"zero\u200bwidth\u200d\ufeff\xad"),
    ("tag\U000e0041", r"tag\U000e0041"),
    ("half \ud800", r"half \ud800"),
    ("\ufffe\uffff\U0010ffff", r"\ufffe\uffff\U0010ffff"),
    ("private \ue000", r"private \ue000"),
    ("blank\u3164\u2800\u115f\uffa0\u034f", r"blank\u3164\u2800\u115f\uffa0\u034f"),
    ("selected\U000e0100", r"selected\U000e0100"),
    ("\u0301on nothing", r"\u0301on nothing"),
    ("e" + 6 * "\u0301" + "x", "e" + 4 * "\u0301" + r"\u0301\u0301x"),
    ("::error file=a.py::owned", r"\x3a:error file=a.py::owned"),
    ("##[error]owned", r"\x23#[error]owned"),
    ("a ###vso[task.setvariable variable=PATH]/tmp", r"a #\x23#vso[task.setvariable variable=PATH]/tmp"),
    ("##teamcity[buildStatus]", r"\x23#teamcity[buildStatus]"),
    ("section_start:1:owned\r\x1b[0K", r"section_start:1:owned\r\x1b[0K"),
]
KEPT = [
    "plain text",
    "ünïcödé 漢字 🙂 ✔️",
    "עִבְרִית and العَرَبِيَّة",
    "Tiếng Việt, हिन्दी, ไทย",
    "a/b.py::TestC::test_d[e::f]",
    "## heading [x], # comment",
    "back\\slash 'and' \"quotes\" <b>&amp;</b>",
]


@pytest.mark.parametrize(("text", "shown"), SPELLED)
def test_what_steers_hides_or_forges_is_spelled_out(text: str, shown: str) -> None:
    assert escaping.exact_line(text) == escaping.block(text) == shown
    assert not forbidden(shown)
    assert forbidden(text), "the check that other tests rely on sees it"


@pytest.mark.parametrize("text", KEPT)
def test_what_people_write_stays(text: str) -> None:
    assert escaping.line(text) == escaping.exact_line(text) == escaping.block(text) == text
    assert not forbidden(text)


def test_a_line_is_one_line_whatever_ends_lines() -> None:
    assert escaping.line(" a\n b\r\tc\x85d\u2028e\x0bf ") == "a b c d e f"
    assert escaping.exact_line("a\n  b\tc\r") == r"a\n  b c\r"


def test_lines_keep_what_indents_them() -> None:
    assert escaping.lines("a\n  b\n\tc\r\nd\x1be\x0cf") == ["a", "  b", "    c", r"d\x1be", "f"]
    assert escaping.lines("") == []


def test_a_block_keeps_its_lines_and_tabs_and_no_line_of_it_is_a_command() -> None:
    assert escaping.block("a\r\nb\tc\rd") == "a\nb\tc\\rd"
    assert escaping.block("a\n  ::error::b\n\t::c::") == "a\n  \\x3a:error::b\n\t\\x3a:c::"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("t.py::test_a[x-1]", "t.py::test_a[x-1]"),
        ("test_<lambda>", r"test_\x3clambda\x3e"),
        ("<!channel> <https://example.invalid|a>", r"\x3c!channel\x3e \x3chttps:\x2f/example.invalid|a\x3e"),
        ("[a](https://example.invalid) [b][c]", r"[a]\x28https:\x2f/example.invalid) [b]\x5bc]"),
        ("@everyone `code` www.example.invalid", r"\x40everyone \x60code\x60 www\x2eexample.invalid"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_label_is_no_link_no_mention_and_no_element(text: str, shown: str) -> None:
    assert escaping.label(text) == escaping.label(shown) == shown


def test_a_text_of_nothing_but_line_ends_takes_no_longer_than_any_other() -> None:
    assert escaping.block("\n" * 300_000 + "::") == "\n" * 300_000 + r"\x3a:"
    assert escaping.exact_line(" " * 300_000 + "::").endswith(r"\x3a:")
    assert escaping.line("#" * 300_000 + "a" * 300_000).isprintable()


@given(HOSTILE)
def test_nothing_forbidden_is_left_and_nothing_is_changed_twice(text: str) -> None:
    line, exact, block = escaping.line(text), escaping.exact_line(text), escaping.block(text)
    assert not [*forbidden(line), *forbidden(exact), *forbidden(block)]
    assert not set("\n\t") & {*line, *exact}
    assert (escaping.line(line), escaping.exact_line(exact), escaping.block(block)) == (line, exact, block)
    assert all(not forbidden(one) and "\n" not in one for one in escaping.lines(text))
    for shown in (line, exact, block):
        shown.encode()
