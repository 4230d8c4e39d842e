"""Lines of logs: which are for people, whose they are, and what a report has of those that are gone."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from disttest_cli.kube import fields
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.text import escaping
from disttest_contract.transport import frames, progress

MACHINE = tuple(f"{mark} ".encode() for mark in (frames.MARK, progress.MARK))  # lines for programs begin so
Keep = Callable[[bytes], bool]


def keeping(rank: int | None, *, raw: bool) -> Keep:
    """What a rank wrote has its prefix; of a node everything but the lines for programs."""
    if rank is not None:
        own = f"[rank {rank}] ".encode()
        return lambda line: line.startswith(own)
    return lambda line: raw or not line.startswith(MACHINE)


def chosen(lines: Iterable[bytes], keep: Keep, tail: int | None) -> Iterable[bytes]:
    """The last ones of those that are kept."""
    kept = (line for line in lines if keep(line))
    return kept if tail is None else deque(kept, maxlen=tail)


def of_cases(lines: Iterable[bytes], rank: int, headings: Iterable[str]) -> list[bytes]:
    """Return a rank's output in these cases, each under its heading; all of it if none of them has any."""
    every = list(lines)
    sections: dict[bytes, list[bytes]] = {}
    section: list[bytes] = []  # of what was written before the first case
    for line in every:
        if line.startswith(f"[rank {rank}] ==> ".encode()) and line.endswith(b" <=="):
            section = sections.setdefault(line, [line])
        else:
            section.append(line)
    wanted = [f"[rank {rank}] {heading}".encode(errors="backslashreplace") for heading in headings]  # as agents do
    return [line for heading in wanted for line in sections.get(heading, ())] or every


class LogOutput:
    """Standard output: a line stays one line, and nothing in it steers who reads it, which may be a CI system.

    What is raw goes into a pipe or file as it is.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self._is_raw = is_raw and not sys.stdout.isatty()

    def line(self, raw: bytes, prefix: str = "") -> None:
        """Flushed: who follows wants to see it."""
        shown = raw if self._is_raw else escaping.exact_line(raw.decode(errors="replace")).encode()
        sys.stdout.flush()
        sys.stdout.buffer.write(prefix.encode() + shown + b"\n")
        sys.stdout.buffer.flush()

    def text(self, words: str) -> None:
        """Of our own, or from a report: never raw."""
        self.line(escaping.exact_line(words).encode())


def of_report(report: Report, ranks: Iterable[int]) -> Iterator[str]:
    """What is known about these ranks, or about all, of each case that failed or was interrupted."""
    wanted = tuple(ranks)
    for suite, case in (*report.interrupted, *report.failures, *report.excused):
        parts = [(rank, _said(case, rank)) for rank in wanted or _ranks(case)]
        parts = [(rank, words) for rank, words in parts if words]
        if parts:
            yield f"==> {case.ending} in {suite}: {case.id} <=="
        for rank, words in parts:
            yield from (f"[rank {rank}] {one}" if rank >= 0 else one for one in words.splitlines())


def of_status(status: Mapping[str, Any]) -> Iterator[str]:
    """The same, where there is no report."""
    for row in fields.rows(status.get("failures")):
        where = fields.rank_words(row.get("ranks"))
        case = f"{fields.text(row.get('suite'))}: {fields.text(row.get('case'))}"
        yield f"==> {fields.text(row.get('outcome'))} in {case}{f', ranks {where}' if where else ''} <=="
        yield from fields.text(row.get("message")).splitlines()


def _ranks(case: CaseResult) -> tuple[int, ...]:
    """-1 where nobody is blamed: what is said is about all."""
    return tuple(dict.fromkeys((*case.ranks, *case.stacks))) or (-1,)


def _said(case: CaseResult, rank: int) -> str:
    """Its own words, else those about the case if it is to blame; and where it stood."""
    own = next((group.message for group in case.by_rank if rank in group.ranks and group.message), "")
    about = own or (case.message if rank in case.ranks or rank < 0 else "")
    return "\n".join(part for part in (about, case.stacks.get(rank, "")) if part)
