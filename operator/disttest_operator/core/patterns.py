"""Regular expressions that search logs of untrusted code: by RE2, whose time grows with the line, whatever both are."""

from dataclasses import dataclass, field
from typing import Any

PROBES = ("", " ", "a b")  # who finds nothing in one of them finds it in every line


class PatternError(ValueError):
    """What to write instead."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Raises PatternError for what is none, and for what would be found everywhere."""

    text: str
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        import re2  # noqa: PLC0415  # the command line reads the table of flags too, and is installed without it

        options = re2.Options()
        options.log_errors = False  # they are told in our words
        try:
            compiled = re2.compile(self.text, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise PatternError(f"is no regular expression of RE2 ({_words(error)}); correct it") from error
        for probe in PROBES:
            found = compiled.search(probe)
            if found and not found.group():
                raise PatternError("matches nothing at all, and so every line; write something that must be there")
        object.__setattr__(self, "_compiled", compiled)

    def is_in(self, line: str) -> bool:
        return self._compiled.search(line.encode(errors="replace")) is not None


def _words(error: Exception) -> str:
    told = error.args[0] if error.args else error
    return told.decode(errors="replace") if isinstance(told, bytes) else str(error)
