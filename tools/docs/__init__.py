"""Pages of docs/ that are generated from code and manifests: `python -m tools.docs` writes them, `--check` compares."""

import textwrap
from collections.abc import Iterable

LINE_CHARACTERS = 100


class PageError(Exception):
    """Why a page cannot be written."""


def wrapped(text: str, indent: str = "") -> str:
    """Wrap prose; `indent` is that of the second line and further ones."""
    return textwrap.fill(
        text, LINE_CHARACTERS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def bullets(rows: Iterable[tuple[str, str]]) -> str:
    """A list of terms, each with its text, wrapped like prose."""
    return "\n".join(wrapped(f"- {term}: {text}", "  ") for term, text in rows)


def between(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between its marks."""
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise PageError(f"the marks {begin!r} and {end!r} are missing")
    return f"{before}{begin}\n\n{text.rstrip()}\n\n{end}{after}"
