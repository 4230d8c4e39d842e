"""Text for the screen with rich: colours on a terminal that supports them, plain text elsewhere."""

import functools
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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

PLAIN_COLUMNS = 1 << 16  # width of a pipe or file, in which lines are not wrapped

GOOD, BROKEN, WARNING, QUIET, STRONG = "green", "bold red", "yellow", "dim", "bold"

# Other verdicts and outcomes have no colour.
STYLES: dict[str, str] = {
    Verdict.PASSED.value: GOOD,
    **dict.fromkeys((Verdict.TESTS_FAILED, Verdict.HUNG, Verdict.TIMED_OUT, Verdict.ERRORED, *BAD), BROKEN),
    **dict.fromkeys((Verdict.INFRA_FAILED, Verdict.CANCELLED), WARNING),
    Outcome.PASSED.value: GOOD,
    Outcome.SKIPPED.value: QUIET,
    Outcome.NOT_RUN.value: WARNING,
}

INDENT = "    "  # of messages of test code, which are not coloured
WORDS = re.compile(rf"\b(?:{'|'.join(Verdict)})\b|\b(?:{'|'.join(sorted(BAD))})(?= after )|\bmissed(?=: )")


@functools.cache
def _console_class() -> type[Console]:
    class QuietConsole(rich_console.Console):
        """Raises BrokenPipeError, which `main` handles, instead of exiting."""

        def on_broken_pipe(self) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
            raise BrokenPipeError

    return QuietConsole


def console() -> Console:
    """For standard output.

    NO_COLOR (if not empty) and TERM=dumb disable colours; without a terminal there are none.
    """
    is_terminal = sys.stdout.isatty()
    return _console_class()(
        file=sys.stdout,
        force_terminal=is_terminal,
        no_color=bool(os.environ.get("NO_COLOR")),
        width=None if is_terminal else PLAIN_COLUMNS,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )


def styled(word: str) -> Text:
    """A sanitized word, coloured if it is a verdict or outcome."""
    return rich_text.Text(escaping.line(word), style=STYLES.get(word, ""))


def coloured(line: str) -> Text:
    """A sanitized line of a report's text, with coloured verdicts and bad outcomes."""
    text = rich_text.Text(line)
    if not line.startswith(INDENT):
        for found in WORDS.finditer(line):
            text.stylize(STYLES.get(found.group(), BROKEN), *found.span())
    return text


def table(rows: Sequence[Sequence[str | Text]], *, numbers: frozenset[int] = frozenset()) -> list[Text]:
    """Columns like kubectl's; the first row is the header, and the columns `numbers` are aligned right.

    Strings are sanitized.
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
    """A line of texts, (text, style) pairs and lines; texts are sanitized, their spaces kept."""
    made = rich_text.Text()
    for part in parts:
        if isinstance(part, rich_text.Text):
            made.append_text(part)
        else:
            words, style = part if isinstance(part, tuple) else (part, "")
            made.append(escaping.exact_line(words), style=style)
    return made


def paragraphs(parts: Iterable[Sequence[Line]]) -> list[Line]:
    """Join parts with an empty line between them; empty parts are dropped."""
    found: list[Line] = []
    for part in parts:
        if part:
            found += [line(), *part] if found else part
    return found


def say(words: str) -> None:
    print(escaping.exact_line(words), flush=True)


def show(lines: Iterable[Line]) -> None:
    out = console()
    for one in lines:
        out.print(one)
