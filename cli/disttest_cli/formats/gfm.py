"""The parts of GitHub's Markdown that reports use.

All text of a report is in code spans or blocks, where it is not markup, a link or a mention.
"""

import html
import re
from collections.abc import Sequence

from disttest_contract.text import escaping

CELL_BYTES = 240
TICKS = re.compile("`+")
BAR = "¦"  # replaces |, which ends a cell even in code


def code(text: str, limit_bytes: int = CELL_BYTES) -> str:
    flat = escaping.short_line(text, limit_bytes)
    if not flat:
        return ""
    fence = "`" * (_longest_run(flat) + 1)
    gap = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{gap}{flat}{gap}{fence}"


def cell(text: str, limit_bytes: int = CELL_BYTES) -> str:
    return code(text.replace("|", BAR), limit_bytes)


def block(text: str, limit_bytes: int) -> str:
    shown = escaping.short_block(text.strip("\n"), limit_bytes)
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}text\n{shown}\n{fence}\n"


def details(summary: str, body: str) -> str:
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n</details>\n"


def html_code(text: str, limit_bytes: int = CELL_BYTES) -> str:
    return f"<code>{html.escape(escaping.short_line(text, limit_bytes))}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: frozenset[int] = frozenset()) -> str:
    """Cells are Markdown; `numbers` are the columns that are aligned right. Ends with a newline."""
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *rows))


def size(text: str) -> int:
    return len(text.encode())


def _longest_run(text: str) -> int:
    return max(map(len, TICKS.findall(text)), default=0)
