"""Whose log is meant: nodes, ranks, or those that a run blames. No I/O."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from disttest_cli.kube import runs
from disttest_cli.kube.cluster import Body
from disttest_cli.words import following, lenient
from disttest_contract import case_result, ranks
from disttest_contract.outcomes import Verdict
from disttest_contract.report import Report

MOST_BLAMED = 8  # ranks: that a case failed on all 512 of them is seen on the first ones
LEADER = 0
BY_CASES = frozenset({Verdict.PASSED.value, Verdict.TESTS_FAILED.value, Verdict.HUNG.value, Verdict.TIMED_OUT.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The log of a node, or the output of one of its ranks; `headings` are those of its failed cases."""

    node: int
    rank: int | None = None
    why: str = ""
    headings: tuple[str, ...] = ()


def of_nodes(nodes: Iterable[int]) -> list[Part]:
    return [Part(node=node) for node in dict.fromkeys(nodes)]


def of_ranks(numbers: Iterable[int], per_node: int) -> list[Part]:
    return [Part(node=rank // max(1, per_node), rank=rank) for rank in dict.fromkeys(numbers)]


def blamed(body: Body, attempt: int, pods: Sequence[Body], report: Report | None) -> list[Part]:
    """Each rank once, with all cases that it is blamed for; nodes of which no rank is blamed, whole."""
    per_node = runs.ranks_per_node(body)
    ranked: dict[int, Part] = {}
    for failure in _failures(body, attempt, report):
        why = following.one_line(f"{lenient.text(failure.get('outcome'))} in {lenient.text(failure.get('case'))}")
        heading = case_result.heading(lenient.text(failure.get("suite")), lenient.text(failure.get("case")))
        for rank in _ranks(failure.get("ranks")):
            part = ranked.get(rank, Part(node=rank // per_node, rank=rank, why=why))
            ranked[rank] = dataclasses.replace(part, headings=(*part.headings, heading))
    parts = list(ranked.values())
    nodes = {part.node for part in parts}
    record = _record(body, attempt)
    if parts and record.get("verdict") in BY_CASES:
        return parts  # every agent ends badly then: who did so first says nothing
    return parts + [part for part in _first(record, pods, per_node) if part.node not in nodes]


def _failures(body: Body, attempt: int, report: Report | None) -> list[Mapping[str, Any]]:
    """Those that make the run red, or what there is; of an attempt that is over only its report has them."""
    status = lenient.status(body)
    if lenient.count(status.get("attempt")) in (0, attempt):
        found = lenient.rows(status.get("failures") or lenient.mapping(status.get("progress")).get("failures"))
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
        return ranks.read(lenient.rank_words(value))
    except ValueError:
        return ()


def _record(body: Body, attempt: int) -> Mapping[str, Any]:
    records = lenient.rows(lenient.status(body).get("attempts"))
    return next((row for row in records if lenient.count(row.get("number")) == attempt), {})


def _first(record: Mapping[str, Any], pods: Sequence[Body], per_node: int) -> list[Part]:
    """The pod, or the rank, that ended first."""
    first = lenient.mapping(record.get("firstFailure"))
    why = f"ended first, {lenient.text(record.get('reason'))}".rstrip(", ")
    pod = next((pod for pod in pods if lenient.name(pod) == first.get("pod")), None)
    if pod is not None:
        return [Part(node=runs.node_index(pod), why=why)]
    rank = first.get("rank")
    return [Part(node=rank // per_node, rank=rank, why=why)] if isinstance(rank, int) and rank >= 0 else []


def header(part: Part, pod: Body | None) -> str:
    where = f" ({lenient.name(pod)} on {lenient.text(lenient.spec(pod).get('nodeName'))})" if pod else ""
    who = f"node {part.node}" if part.rank is None else f"rank {part.rank} of node {part.node}"
    return f"==> {who}{where}{f': {part.why}' if part.why else ''} <=="
