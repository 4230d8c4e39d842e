"""The only home of rich: what people see, with colours on a terminal that wants them and plain text anywhere else."""

import functools
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from disttest_cli import lazy
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.text import escaping

if TYPE_CHECKING:
    from rich import console as rich_console
    from rich import text as rich_text
    from rich.console import Console
    from rich.text import Text

    Line = Text  # with its styles
else:
    rich_console, rich_text = lazy.module("rich.console"), lazy.module("rich.text")
    Console = Text = Line = object

PLAIN_COLUMNS = 1 << 16  # of what is no terminal: lines are cut by whoever reads them

GOOD, BROKEN, WARNING, QUIET, STRONG = "green", "bold red", "yellow", "dim", "bold"

# What is not here is nothing to worry about, and nothing to be glad of.
STYLES: dict[str, str] = {
    Verdict.PASSED.value: GOOD,
    Verdict.TESTS_FAILED.value: BROKEN,
    Verdict.HUNG.value: BROKEN,
    Verdict.TIMED_OUT.value: BROKEN,
    Verdict.ERRORED.value: BROKEN,
    Verdict.INFRA_FAILED.value: WARNING,
    Verdict.CANCELLED.value: WARNING,
    Outcome.PASSED.value: GOOD,
    **{outcome.value: BROKEN for outcome in BAD},
    Outcome.SKIPPED.value: QUIET,
    Outcome.NOT_RUN.value: WARNING,
}

INDENT = "    "  # of what test code has said: it is shown as it is
WORDS = re.compile(rf"\b(?:{'|'.join(Verdict)})\b|\b(?:{'|'.join(sorted(BAD))})(?= after )|\bmissed(?=: )")


@functools.cache
def _console_class() -> type[Console]:
    class QuietConsole(rich_console.Console):
        """Who read the output and has gone is for `main` to deal with, as for all other output."""

        def on_broken_pipe(self) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
            raise BrokenPipeError

    return QuietConsole


def empty() -> Line:
    """A line without words."""
    return rich_text.Text()


def console(stream: TextIO | None = None) -> Console:
    """For standard output unless another stream is named.

    NO_COLOR (with any value but none) and TERM=dumb turn colours off; nothing turns them on where no terminal is.
    """
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    return _console_class()(
        file=stream,
        force_terminal=is_terminal,
        no_color=bool(os.environ.get("NO_COLOR")),
        width=None if is_terminal else PLAIN_COLUMNS,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def styled(word: str) -> Text:
    """A verdict or outcome in its colour; everything else as it is."""
    return rich_text.Text(escaping.line(word), style=STYLES.get(word, ""))


def coloured(line: str) -> Text:
    """A line of a report's text, which is harmless already, with its verdicts and bad endings in their colours."""
    text = rich_text.Text(line)
    if not line.startswith(INDENT):
        for found in WORDS.finditer(line):
            text.stylize(STYLES.get(found.group(), BROKEN), *found.span())
    return text


def table(rows: Sequence[Sequence[str | Text]], *, numbers: frozenset[int] = frozenset()) -> list[Text]:
    """Columns as kubectl has them: the first row is their head, two spaces between them; `numbers` stand to the right.

    Strings are made harmless.
    """
    cells = [
        [cell if isinstance(cell, rich_text.Text) else rich_text.Text(escaping.line(cell)) for cell in row]
        for row in rows
    ]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        line = rich_text.Text()
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = rich_text.Text(" " * (width - cell.cell_len))
            line.append("  " if place else "")
            line.append_text(gap + cell if place in numbers else cell + gap)
        line.rstrip()
        lines.append(line)
    return lines


def line(*parts: str | Text | tuple[str, str]) -> Line:
    """Of words, words with a style, and lines; strings are made harmless, spaces at their ends stay."""
    made = rich_text.Text()
    for part in parts:
        if isinstance(part, rich_text.Text):
            made.append_text(part)
        else:
            words, style = part if isinstance(part, tuple) else (part, "")
            made.append(escaping.exact_line(words), style=style)
    return made


def show(lines: Iterable[Line]) -> None:
    """To standard output."""
    out = console()
    for one in lines:
        out.print(one)
