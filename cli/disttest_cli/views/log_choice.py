"""Select logs of a run: by node, by rank, or those of ranks and nodes that failed."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from disttest_cli import fields
from disttest_cli.kube import runs
from disttest_cli.kube.client import Body
from disttest_cli.views import status_lines
from disttest_contract.outcomes import Verdict
from disttest_contract.results import case_result
from disttest_contract.results.report import Report
from disttest_contract.text import formatting

MOST_BLAMED = 8  # ranks: the first ones are enough if a case failed on all 512
LEADER = 0
BY_CASES = frozenset({Verdict.PASSED.value, Verdict.TESTS_FAILED.value, Verdict.HUNG.value, Verdict.TIMED_OUT.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The log of a node, or the output of a rank; `headings` are those of its failed cases."""

    node: int
    rank: int | None = None
    why: str = ""
    headings: tuple[str, ...] = ()


def of_nodes(nodes: Iterable[int]) -> list[LogPart]:
    return [LogPart(node=node) for node in dict.fromkeys(nodes)]


def of_ranks(numbers: Iterable[int], per_node: int) -> list[LogPart]:
    return [LogPart(node=rank // max(1, per_node), rank=rank) for rank in dict.fromkeys(numbers)]


def blamed(body: Body, attempt: int, pods: Sequence[Body], report: Report | None) -> list[LogPart]:
    """Failed ranks with the headings of their cases; whole logs of other nodes that failed."""
    per_node = runs.ranks_per_node(body)
    ranked: dict[int, LogPart] = {}
    for failure in _failures(body, attempt, report):
        why = status_lines.one_line(f"{fields.text(failure.get('outcome'))} in {fields.text(failure.get('case'))}")
        heading = case_result.heading(fields.text(failure.get("suite")), fields.text(failure.get("case")))
        for rank in _ranks(failure.get("ranks")):
            part = ranked.get(rank, LogPart(node=rank // per_node, rank=rank, why=why))
            ranked[rank] = dataclasses.replace(part, headings=(*part.headings, heading))
    parts = list(ranked.values())
    nodes = {part.node for part in parts}
    record = _record(body, attempt)
    if parts and record.get("verdict") in BY_CASES:
        return parts  # all agents fail in this case, so the first one has no meaning
    return parts + [part for part in _first(record, pods, per_node) if part.node not in nodes]


def _failures(body: Body, attempt: int, report: Report | None) -> list[Mapping[str, Any]]:
    """Failures that count for the verdict, else all; those of earlier attempts are from the report."""
    status = fields.status(body)
    if fields.count(status.get("attempt")) in (0, attempt):
        found = fields.rows(status.get("failures") or fields.mapping(status.get("progress")).get("failures"))
        if found:
            red = [row for row in found if not row.get("flaky") and not row.get("quarantined")]
            return red or found
    failures = report.failures if report else []
    return [
        {"outcome": case.outcome.value, "suite": suite, "case": case.id, "ranks": list(case.ranks)}
        for suite, case in failures
    ]


def _ranks(value: Any) -> tuple[int, ...]:
    try:
        return formatting.read_ranks(fields.rank_words(value))
    except ValueError:
        return ()


def _record(body: Body, attempt: int) -> Mapping[str, Any]:
    records = fields.rows(fields.status(body).get("attempts"))
    return next((row for row in records if fields.count(row.get("number")) == attempt), {})


def _first(record: Mapping[str, Any], pods: Sequence[Body], per_node: int) -> list[LogPart]:
    first = fields.mapping(record.get("firstFailure"))
    why = f"ended first, {fields.text(record.get('reason'))}".rstrip(", ")
    pod = next((pod for pod in pods if fields.name(pod) == first.get("pod")), None)
    if pod is not None:
        return [LogPart(node=runs.node_index(pod), why=why)]
    rank = first.get("rank")
    return [LogPart(node=rank // per_node, rank=rank, why=why)] if isinstance(rank, int) and rank >= 0 else []


def header(part: LogPart, pod: Body | None) -> str:
    where = f" ({fields.name(pod)} on {fields.text(fields.spec(pod).get('nodeName'))})" if pod else ""
    who = f"node {part.node}" if part.rank is None else f"rank {part.rank} of node {part.node}"
    return f"==> {who}{where}{f': {part.why}' if part.why else ''} <=="
