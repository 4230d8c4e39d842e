import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from disttest_cli.errors import UsageError
from disttest_cli.formats import advice
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.text import escaping
from disttest_operator.core.api import conditions

WIDTH = 24  # of words in the list
# (kind, sentence of each word, advice for some of them)
KINDS: tuple[tuple[str, Mapping[Any, str], Mapping[Any, str]], ...] = (
    ("verdict", {word: word.description for word in Verdict}, {}),
    ("outcome", {word: word.description for word in Outcome}, {}),
    ("reason", {word: word.description for word in Reason}, advice.ENDINGS),
    ("phase", conditions.PHASES, {}),
    ("condition", conditions.CONDITIONS, {}),
    ("reason of GangReady", conditions.GANG_READY_REASONS, advice.WAITS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    word: str
    kind: str
    sentence: str
    advice: str = ""


def entries() -> Iterator[Entry]:
    for kind, sentences, advised in KINDS:
        for word, sentence in sentences.items():
            to_do = "" if word == Reason.ALL_CASES_PASSED else advised.get(word, "")
            yield Entry(word=word, kind=kind, sentence=sentence, advice=to_do)


@click.command("explain")
@click.argument("word", required=False, default="", metavar="[WORD]")
def command(*, word: str) -> int:
    """Explain WORD: a verdict, outcome, reason, phase or condition. Without WORD, list all of them.

    For reasons, the next step is printed too.

    Exit codes: 0, 2 unknown word.
    """
    if not word:
        print("\n\n".join(_lists()))
        return 0
    found = [entry for entry in entries() if entry.word.lower() == word.lower()]
    if not found:
        raise UsageError(_unknown(word))
    for entry in found:
        print(f"{entry.word} ({entry.kind}): {entry.sentence}")
        if entry.advice:
            print(f"  To do: {entry.advice}")
    return 0


def _lists() -> Iterator[str]:
    by_kind: dict[str, list[str]] = {}
    for entry in entries():
        by_kind.setdefault(entry.kind, []).append(f"  {entry.word.ljust(WIDTH)}  {entry.sentence}")
    for kind, lines in by_kind.items():
        yield "\n".join([f"{kind.replace('reason', 'reasons', 1) if ' of ' in kind else f'{kind}s'}:", *lines])


def _unknown(word: str) -> str:
    words = {entry.word.lower(): entry.word for entry in entries()}
    near = difflib.get_close_matches(word.lower(), words, n=3)
    hint = f"Did you mean {', '.join(words[one] for one in near)}?" if near else "`disttest explain` lists all words."
    return f"{escaping.short_line(word)!r} is not a verdict, outcome, reason, phase or condition. {hint}"
