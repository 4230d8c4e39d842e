"""GitHub's Markdown, as far as reports need it.

Whatever a report holds stands in code, inline or in blocks: nothing in there is markup, a link, or a mention of anyone.
"""

import html
import re
from collections.abc import Sequence

from disttest_cli.formats import plain

CELL_BYTES = 240
TICKS = re.compile("`+")
BAR = "¦"  # in place of |, which ends a cell even in code


def code(text: str, limit_bytes: int = CELL_BYTES) -> str:
    """Inline, in one line; nothing for nothing."""
    flat = plain.one_line(text, limit_bytes)
    if not flat:
        return ""
    fence = "`" * (_longest_run(flat) + 1)
    gap = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{gap}{flat}{gap}{fence}"


def cell(text: str, limit_bytes: int = CELL_BYTES) -> str:
    """The same for tables."""
    return code(text.replace("|", BAR), limit_bytes)


def block(text: str, limit_bytes: int) -> str:
    """Of several lines. It ends with a line end."""
    shown = plain.block(text.strip("\n"), limit_bytes)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}\n"


def details(summary: str, body: str) -> str:
    """Folded; `summary` is HTML, `body` Markdown."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n</details>\n"


def html_code(text: str, limit_bytes: int = CELL_BYTES) -> str:
    """Inline code for a summary."""
    return f"<code>{html.escape(plain.one_line(text, limit_bytes))}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: frozenset[int] = frozenset()) -> str:
    """Of cells that are Markdown; `numbers` stand to the right. It ends with a line end."""
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))


def size(text: str) -> int:
    return len(text.encode())


def _longest_run(text: str) -> int:
    return max(map(len, TICKS.findall(text)), default=0)
