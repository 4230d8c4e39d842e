r"""Escape foreign text for display: control, invisible and forging characters become \x1b or \u202e, as in Python.

Case names and messages come from test code, object names and labels from users, and any of them can be malicious.
Escaping is idempotent, and text that is cut afterwards stays escaped. XML, HTML, JSON and Markdown need their own
escaping on top. The `short_` functions also limit the size.
"""

import functools
import re
import unicodedata

from disttest_contract import limits

TAB_COLUMNS = 4
MARKS = 4  # combining marks on one letter: Hebrew and Vietnamese have up to three; hundreds cover the lines around
READ_FACTOR = 4  # characters read per byte of the limit: a forged text can have millions
# Letters and marks by category that are invisible: fillers of Hangul and Khmer, variation selectors, blank Braille.
BLANKS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\U000e0100-\U000e01ef]")
CONTROLS = {code: chr(code).encode("unicode_escape").decode() for code in (*range(0x20), 0x7F)}
BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
# Commands that CI systems obey in a job's output. GitHub: lines that start with two colons. GitHub, Azure and TeamCity:
# two hashes, an optional word and a bracket, anywhere in a line. GitLab's and Travis' sections start with an escape.
COMMAND = re.compile(r"^[ \t]*:(?=:)|#(?=#[A-Za-z]*\[)", re.MULTILINE)
# Elements, mentions, code and links in chat, mail and Markdown that quote an alert.
MARKUP = re.compile(r"[<>@`]|(?<=\])[(\[]|(?<=:)/(?=/)|(?<=www)\.")


def line(text: str) -> str:
    """Return one line, with each run of white space as one space."""
    return exact_line(" ".join(text.split()))


def exact_line(text: str) -> str:
    """Return one line that keeps every space; line ends are escaped as well."""
    return _without_commands(_visible(text.expandtabs(TAB_COLUMNS)))


def label(text: str) -> str:
    """Return one line for a metric label: no link, mention or element, wherever an alert quotes it."""
    return MARKUP.sub(lambda found: _spelled(found.group()), line(text))


def lines(text: str) -> list[str]:
    """Return the lines with their indentation; none for an empty text."""
    return [exact_line(one) for one in text.splitlines()]


def block(text: str) -> str:
    """Return the text with its line ends and tabs."""
    if not text.isprintable() or not text.isascii():
        text = "\n".join("\t".join(map(_visible, one.split("\t"))) for one in text.replace("\r\n", "\n").split("\n"))
    return _without_commands(text)


def short_line(text: str, limit_bytes: int = limits.MESSAGE_BYTES) -> str:
    return limits.cut(line(text[: READ_FACTOR * limit_bytes]), limit_bytes)


def short_block(text: str, limit_bytes: int) -> str:
    return limits.cut(block(text[: READ_FACTOR * limit_bytes]), limit_bytes)


def short_case_id(text: str) -> str:
    """Cut, escape and cut again, since escaping lengthens; checksums keep different ids different."""
    return limits.cut_id(line(limits.cut_id(text)))


def _visible(text: str) -> str:
    plain = text.translate(CONTROLS)
    return plain if plain.isascii() else BEYOND_ASCII.sub(_escape_run, plain)


def _escape_run(found: re.Match[str]) -> str:
    shown, marks = [], 0 if found.start() else MARKS  # at the start there is no letter to put marks on
    for one in found.group():
        is_mark, seen, spelled = _classify(one)
        marks = marks + 1 if is_mark else 0
        shown.append(spelled if marks > MARKS else seen)
    return "".join(shown)


@functools.lru_cache(maxsize=1 << 12)
def _classify(one: str) -> tuple[bool, str, str]:
    """Return whether a character is a combining mark, how it is shown, and its escape sequence."""
    spelled = _spelled(one)
    is_seen = one.isprintable() and not BLANKS.match(one)
    return unicodedata.category(one) in {"Mn", "Me"}, one if is_seen else spelled, spelled


def _spelled(one: str) -> str:
    return f"\\x{ord(one):02x}" if one.isascii() and one.isprintable() else one.encode("unicode_escape").decode()


def _without_commands(text: str) -> str:
    if "::" not in text and "##" not in text:
        return text
    return COMMAND.sub(lambda found: found.group()[:-1] + _spelled(found.group()[-1]), text)
