"""Logs of the pods of an attempt, and the data of the report that replaces them when the pods no longer exist."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from disttest_cli import fields
from disttest_cli.errors import UsageError
from disttest_cli.formats import values
from disttest_cli.kube import runs
from disttest_cli.kube.client import Body, KubeClient
from disttest_cli.kube.run_wait import PAUSE_SECONDS, Say, WaitClock
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.text import escaping
from disttest_contract.transport import frames, progress
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import RequestRefusedError, ResponseLostError, ServerBusyError
from disttest_operator.core.api.resources import Kind

MACHINE = tuple(f"{mark} ".encode() for mark in (frames.MARK, progress.MARK))  # prefixes of lines for programs
LineFilter = Callable[[bytes], bool]


def line_filter(rank: int | None, *, raw: bool) -> LineFilter:
    """Select the lines with a rank's prefix, or all lines of a node except those for programs."""
    if rank is not None:
        own = f"[rank {rank}] ".encode()
        return lambda line: line.startswith(own)
    return lambda line: raw or not line.startswith(MACHINE)


def filtered(lines: Iterable[bytes], keep: LineFilter, tail: int | None) -> Iterable[bytes]:
    kept = (line for line in lines if keep(line))
    return kept if tail is None else deque(kept, maxlen=tail)


def of_cases(lines: Iterable[bytes], rank: int, headings: Iterable[str]) -> list[bytes]:
    """Return a rank's output in these cases, each under its heading; all of it if none of them has any."""
    every = list(lines)
    sections: dict[bytes, list[bytes]] = {}
    section: list[bytes] = []  # of lines before the first case
    for line in every:
        if line.startswith(f"[rank {rank}] ==> ".encode()) and line.endswith(b" <=="):
            section = sections.setdefault(line, [line])
        else:
            section.append(line)
    wanted = [f"[rank {rank}] {heading}".encode(errors="backslashreplace") for heading in headings]  # like agents
    return [line for heading in wanted for line in sections.get(heading, ())] or every


class LogOutput:
    """Standard output for log lines, sanitized for terminals and CI systems.

    Raw lines are written to a pipe or file unchanged.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self._is_raw = is_raw and not sys.stdout.isatty()

    def line(self, raw: bytes, prefix: str = "") -> None:
        """Print and flush, for --follow."""
        shown = raw if self._is_raw else escaping.exact_line(raw.decode(errors="replace")).encode()
        sys.stdout.flush()
        sys.stdout.buffer.write(prefix.encode() + shown + b"\n")
        sys.stdout.buffer.flush()

    def text(self, words: str) -> None:
        """Print a line that is not from a log; it is never raw."""
        self.line(escaping.exact_line(words).encode())


def of_report(report: Report, ranks: Iterable[int]) -> Iterator[str]:
    """The data of a report about these ranks, or about all, for each case that failed or was interrupted."""
    wanted = tuple(ranks)
    for suite, case in (*report.interrupted, *report.failures, *report.excused):
        parts = [(rank, _output(case, rank)) for rank in wanted or _ranks(case)]
        parts = [(rank, words) for rank, words in parts if words]
        if parts:
            yield f"==> {case.ending} in {suite}: {case.id} <=="
        for rank, words in parts:
            yield from (f"[rank {rank}] {one}" if rank >= 0 else one for one in words.splitlines())


def of_status(status: Mapping[str, Any]) -> Iterator[str]:
    for row in fields.rows(status.get("failures")):
        ranks = values.rank_list(fields.rank_words(row.get("ranks")))
        case = f"{fields.text(row.get('suite'))}: {fields.text(row.get('case'))}"
        yield f"==> {fields.text(row.get('outcome'))} in {case}{f', {ranks}' if ranks else ''} <=="
        yield from fields.text(row.get("message")).splitlines()


def _ranks(case: CaseResult) -> tuple[int, ...]:
    """Ranks of a case; -1 if it names none."""
    return tuple(dict.fromkeys((*case.ranks, *case.stacks))) or (-1,)


def _output(case: CaseResult, rank: int) -> str:
    """The rank's message, else that of the case if the rank is at fault, and its stack."""
    own = next((group.message for group in case.by_rank if rank in group.ranks and group.message), "")
    about = own or (case.message if rank in case.ranks or rank < 0 else "")
    return "\n".join(part for part in (about, case.stacks.get(rank, "")) if part)


OPTIONS = {"container": naming.CONTAINER}
STARTING = "waiting to start"  # part of the API server's message about a container without a log
OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGang:
    """Pods of one attempt, in the order of their node index."""

    run: str
    attempt: int
    pods: tuple[Body, ...]

    def pod(self, node: int) -> Body:
        found = [pod for pod in self.pods if runs.node_index(pod) == node]
        if not found:
            there = ", ".join(str(runs.node_index(pod)) for pod in self.pods[:16])
            raise UsageError(
                f"attempt {self.attempt} of {self.run} no longer has a pod with node index {node}. Available: {there}"
            )
        return max(found, key=lambda pod: fields.text(fields.metadata(pod).get("creationTimestamp")))


def find(server: KubeClient, body: Body, attempt: int | None) -> PodGang:
    """Pods of the named attempt, else of that in the status, else of the newest one that has pods."""
    status = fields.status(body)
    newest = fields.count(status.get("attempt"))
    if attempt and newest and attempt > newest:
        raise UsageError(f"{fields.name(body)} has no attempt {attempt}. The newest is {newest}.")
    wanted = attempt or newest
    pods = runs.pods(server, body, wanted or None)
    number = wanted or max(map(runs.attempt_of, pods), default=1)
    gang = tuple(pod for pod in pods if runs.attempt_of(pod) == number)
    return PodGang(run=fields.name(body), attempt=number, pods=gang)


def wait_for(server: KubeClient, body: Body, attempt: int | None, clock: WaitClock, say: Say) -> PodGang:
    is_reported = False
    while True:
        gang = find(server, body, attempt)
        if gang.pods or fields.status(body).get("verdict"):
            return gang
        if not is_reported:
            say(f"{gang.run} has no pods yet; waiting for them")
        is_reported = True
        clock.sleep(PAUSE_SECONDS)
        if (current := server.get(Kind.RUN, fields.namespace(body), gang.run)) is None:
            raise UsageError(f"{gang.run} was deleted before it had pods")
        body = current


def follow(
    server: KubeClient, pod: Body, keep: LineFilter, tail: int | None, clock: WaitClock, output: LogOutput
) -> None:
    """Print the log, or its last `tail` lines, and new lines until the pod ends.

    Lines are counted, so that after a broken connection the log continues where it stopped.
    """
    seen = 0
    if tail is not None:
        before = list(_log(server, pod, clock))
        seen = len(before)
        for line in filtered(before, keep, tail):
            output.line(line)
    while True:
        try:
            for number, line in enumerate(_log(server, pod, clock, follow=True)):
                if number >= seen:
                    seen += 1
                    if keep(line):
                        output.line(line)
        except (ServerBusyError, ResponseLostError):
            pass
        if _is_over(server, pod):
            return
        clock.sleep(PAUSE_SECONDS)


def _log(server: KubeClient, pod: Body, clock: WaitClock, *, follow: bool = False) -> Iterable[bytes]:
    """Lines of the log; waits for a container that is being created."""
    while True:
        try:
            yield from server.log(fields.namespace(pod), fields.name(pod), OPTIONS, follow=follow)
        except RequestRefusedError as error:
            if STARTING not in str(error) or _is_over(server, pod):
                raise
        else:
            return
        clock.sleep(PAUSE_SECONDS)


def _is_over(server: KubeClient, pod: Body) -> bool:
    current = server.get(Kind.POD, fields.namespace(pod), fields.name(pod))
    return current is None or fields.status(current).get("phase") in OVER
