"""Has pytest explain failed assertions as with -vv where that is cheap: its hints to use -v help nobody in a report."""

import io
import os
import re
from collections.abc import Generator, Sized
from typing import Any

import pytest
from _pytest._io import TerminalWriter

from disttest_contract import gist

FULL, SHORT = 2, 0  # pytest's verbosity
# Of one side. Comparing line by line takes cubic time in the worst case: 200 lines 6 s, 400 lines 50 s.
MOST_LINES = 100
MOST_CHARACTERS = 4096
CI_VARIABLES = ("CI", "BUILD_NUMBER")  # where one is set, pytest compares line by line whatever the verbosity
HINT = re.compile(r"(\.\.\.Full output truncated.*|,? ?[Uu]se '?-vv?'? to .*)")


class FullDiffs:
    """A pytest plugin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Pytest before 9.2 explains comparisons only where its terminal plugin is, which ranks do not load."""
        config.option.verbose = SHORT
        writer = TerminalWriter(io.StringIO())
        writer.hasmarkup = False
        config.get_terminal_writer = lambda: writer  # type: ignore[method-assign]  # asked for its colours only

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_assertrepr_compare(
        self, config: pytest.Config, left: object, right: object
    ) -> Generator[None, Any, Any]:
        """Pytest cuts what it has found after this hook, so the verbosity stays until the case's report is made."""
        config.option.verbose = FULL if is_small(left) and is_small(right) else SHORT
        hidden = {name: os.environ.pop(name) for name in CI_VARIABLES if name in os.environ}
        try:
            return (yield)
        finally:
            os.environ.update(hidden)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> None:
        item.config.option.verbose = SHORT


def without_hints(message: str) -> str:
    """Of the lines that pytest has marked, those and parts of those that name its options."""
    lines = message.splitlines()
    return "\n".join(HINT.sub("", line) if line.startswith(gist.PYTEST_MARK) else line for line in lines)


def is_small(value: object) -> bool:
    """Whether pytest would show it in few lines: one for each item, also of nested ones."""
    if isinstance(value, (str, bytes)):
        return len(value) <= MOST_CHARACTERS
    if isinstance(value, Sized) and len(value) > MOST_LINES:
        return False
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a value's own code raises, pytest shows it
        return False
    return len(text) <= MOST_CHARACTERS and text.count(",") + text.count("\n") <= MOST_LINES
