r"""Text that somebody else wrote, as it may be shown: what steers, hides or forges is spelled out.

Names and messages of cases come from test code, names and labels from whoever writes objects, and all of it may be out
for trouble. Spelled out is as Python does it, \x1b or \u202e: every font has these letters. What is harmless stays so
however often it goes through here; what is cut afterwards loses its end only.

Escaping is not done here: whoever makes XML, HTML, JSON or Markdown does that on top.
"""

import functools
import re
import unicodedata

from disttest_contract import limits

TAB_COLUMNS = 4
MARKS = 4  # on one letter: Hebrew and Vietnamese have up to three; hundreds paint over the lines around
# Letters and marks by their category, which nobody sees: fillers of Hangul and Khmer, variants, the blank of Braille.
BLANKS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
CONTROLS = {code: chr(code).encode("unicode_escape").decode() for code in (*range(0x20), 0x7F)}
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# What CI systems obey in what a job prints. GitHub: lines that begin with two colons. GitHub, Azure and TeamCity: two
# hashes, a word or none, and a bracket, anywhere in a line. GitLab's and Travis' sections begin with an escape.
COMMAND = re.compile(r"^[ \t]*:(?=:)|#(?=#[A-Za-z]*\[)", re.MULTILINE)
# What chat, mail and Markdown make of an alert: elements, mentions, code, links.
MARKUP = re.compile(r"[<>@`]|(?<=\])[(\[]|(?<=:)/(?=/)|(?<=www)\.")


def line(text: str) -> str:
    """One line: whatever is space is one space."""
    return exact_line(" ".join(text.split()))


def exact_line(text: str) -> str:
    """One line of which every space counts; line ends are spelled out as well."""
    return _without_commands(_visible(text.expandtabs(TAB_COLUMNS)))


def label(text: str) -> str:
    """For metrics: one line that is no link, no mention and no element wherever an alert quotes it."""
    return MARKUP.sub(lambda found: _spelled(found.group()), line(text))


def lines(text: str) -> list[str]:
    """Several; what indents a line stays. None for an empty text."""
    return [exact_line(one) for one in text.splitlines()]


def block(text: str) -> str:
    """Several in one text: line ends and tabs stay."""
    if not text.isprintable() or not text.isascii():
        text = "\n".join("\t".join(map(_visible, one.split("\t"))) for one in text.replace("\r\n", "\n").split("\n"))
    return _without_commands(text)


def _visible(text: str) -> str:
    plain = text.translate(CONTROLS)
    return plain if plain.isascii() else BEYOND_ASCII.sub(_seen, plain)


def _seen(found: re.Match[str]) -> str:
    """Characters beyond ASCII, which come in runs."""
    shown, marks = [], 0 if found.start() else MARKS  # at the beginning there is nothing to put marks on
    for one in found.group():
        is_mark, seen, spelled = _kind(one)
        marks = marks + 1 if is_mark else 0
        shown.append(spelled if marks > MARKS else seen)
    return "".join(shown)


@functools.lru_cache(maxsize=1 << 12)
def _kind(one: str) -> tuple[bool, str, str]:
    """Whether a character stands on the one before it, how it is shown, and how it is spelled."""
    spelled = _spelled(one)
    is_seen = one.isprintable() and not BLANKS.match(one)
    return unicodedata.category(one) in {"Mn", "Me"}, one if is_seen else spelled, spelled


def _spelled(one: str) -> str:
    return f"\\x{ord(one):02x}" if one.isascii() and one.isprintable() else one.encode("unicode_escape").decode()


def _without_commands(text: str) -> str:
    if "::" not in text and "##" not in text:
        return text
    return COMMAND.sub(lambda found: found.group()[:-1] + _spelled(found.group()[-1]), text)


LOOKED_AT = 4  # times the limit, in characters: a forged text may have millions


def short_case_id(text: str) -> str:
    """Short before it is made harmless, which may make it long again; still its own, by the checksums."""
    return limits.cut_id(line(limits.cut_id(text)))


def short_line(text: str, limit_bytes: int) -> str:
    return limits.cut(line(text[: LOOKED_AT * limit_bytes]), limit_bytes)


def short_block(text: str, limit_bytes: int) -> str:
    """Line ends stay."""
    return limits.cut(block(text[: LOOKED_AT * limit_bytes]), limit_bytes)
