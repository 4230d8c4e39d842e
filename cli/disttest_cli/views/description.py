"""The upper part of `describe`: verdict, reason, advice, place, time and number of cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disttest_cli import fields
from disttest_cli.formats import advice, values
from disttest_cli.formats.subject import STEPS
from disttest_cli.kube import runs
from disttest_cli.kube.client import Body
from disttest_cli.views import run_list, status_lines, terminal
from disttest_cli.views.terminal import Line
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting

LABEL_WIDTH = 10
BAR_WIDTH = 30
SHOWN_NODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRun:
    """A run and its objects. `notes` are reasons why some are missing."""

    body: Body
    now: datetime
    pods: Sequence[Body] = ()
    events: Sequence[Body] = ()
    report: Report | None = None
    notes: Sequence[str] = ()

    @property
    def status(self) -> Mapping[str, Any]:
        return fields.status(self.body)

    @property
    def namespace(self) -> str:
        return fields.namespace(self.body)

    @property
    def name(self) -> str:
        return fields.name(self.body)


def summary(seen: DescribedRun) -> list[Line]:
    return [
        *_headline(seen),
        *_message(seen.status),
        *_to_do(seen.status),
        terminal.line(),
        *_progress(seen),
        *_where(seen),
        *_suspects(seen.status),
        *_when(seen),
        *_cases(seen.status),
    ]


def field(label: str, *parts: str | Line | tuple[str, str]) -> Line:
    return terminal.line((label.ljust(LABEL_WIDTH), terminal.STRONG), " ", *parts)


def heading(words: str) -> list[Line]:
    return [terminal.line(), terminal.line((words, terminal.STRONG))]


def _headline(seen: DescribedRun) -> list[Line]:
    status = seen.status
    name = f"{seen.namespace}/{seen.name}: "
    if verdict := fields.text(status.get("verdict")):
        reason = fields.text(status.get("reason"))
        return [terminal.line((name, terminal.STRONG), terminal.styled(verdict), f" ({reason})" if reason else "")]
    phase = fields.text(status.get("phase"))
    attempt = fields.count(status.get("attempt"))
    words = f"{phase}, attempt {attempt}" if phase and attempt > 1 else phase or status_lines.NOT_SEEN
    return [terminal.line((name, terminal.STRONG), words)]


def _message(status: Mapping[str, Any]) -> list[Line]:
    label = "Why" if status.get("verdict") else "Waits for"
    message = escaping.line(fields.text(status.get("message")))
    return [field(label, message)] if message else []


def _to_do(status: Mapping[str, Any]) -> list[Line]:
    return [field("To do" if not place else "", words) for place, words in enumerate(advice.for_status(status))]


def _progress(seen: DescribedRun) -> list[Line]:
    status = seen.status
    progress = fields.mapping(status.get("progress"))
    if status.get("verdict") or not progress:
        return []
    done, total = fields.count(progress.get("casesDone")), fields.count(progress.get("casesTotal"))
    suite, case = fields.text(progress.get("suite")), fields.text(progress.get("currentCase"))
    suites = len(fields.rows(fields.spec(seen.body).get("suites")))
    where = f", suite {min(fields.count(progress.get('suitesDone')) + 1, suites)} of {suites}: {suite}" if suite else ""
    age = formatting.show_age(fields.moment(progress.get("time")), seen.now)
    lines = [field("Progress", bar(done, total), f" {done}/{total} cases{where}")] if total else []
    lines += [field("Running", escaping.line(case))] if case else []
    joined = f"{fields.count(progress.get('nodesJoined'))} of {formatting.counted(runs.nodes(seen.body), 'node')}"
    return [*lines, field("Joined", f"{joined} (progress reported {age} ago)" if age else joined)]


def bar(done: int, total: int) -> str:
    filled = min(BAR_WIDTH, BAR_WIDTH * done // total) if total > 0 else 0
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"


def _where(seen: DescribedRun) -> list[Line]:
    body, status = seen.body, seen.status
    size = f"{formatting.gang_size(runs.nodes(body), runs.ranks_per_node(body))} with {runs.backend(body)}"
    gpus = fields.count(status.get("gpus"))
    names = _node_names(seen)
    shown = formatting.listed(names, SHOWN_NODES)
    series = fields.text(status.get("series") or fields.spec(body).get("series"))
    lines = [
        field("Where", size, f", {formatting.counted(gpus, 'GPU')}" if gpus else "", f": {shown}" if shown else "")
    ]
    network = values.transport(seen.report) if seen.report else ""
    lines += [field("Transport", network)] if network else []
    return [*lines, *([field("Series", series)] if series else [])]


def _node_names(seen: DescribedRun) -> list[str]:
    attempt = max(map(runs.attempt_of, seen.pods), default=0)
    pods = [pod for pod in seen.pods if runs.attempt_of(pod) == attempt]
    names = [fields.text(fields.spec(pod).get("nodeName")) for pod in pods]
    records = fields.rows(seen.status.get("attempts"))
    return list(dict.fromkeys(name for name in names if name)) or (
        fields.texts(records[-1].get("nodes")) if records else []
    )


def _suspects(status: Mapping[str, Any]) -> list[Line]:
    lines: list[Line] = []
    for row in fields.rows(status.get("suspectNodes")):
        how = "confirmed" if row.get("confirmed") is True else "not confirmed"
        words = f": {fields.text(row.get('reason'))}, {how}: {status_lines.one_line(row.get('evidence'))}"
        label = "" if lines else "Suspect"
        lines.append(field(label, (fields.text(row.get("name")), terminal.WARNING), words))
    return lines


def _when(seen: DescribedRun) -> list[Line]:
    status = seen.status
    steps = fields.mapping(status.get("stepSeconds"))
    parts = [(step, fields.number(steps.get(step))) for step in STEPS]
    timeline = ", ".join(
        f"{step} {formatting.show_duration(seconds)}" for step, seconds in parts if seconds is not None
    )
    created = formatting.show_age(fields.moment(fields.metadata(seen.body).get("creationTimestamp")), seen.now)
    ended = formatting.show_age(fields.moment(status.get("completionTime")), seen.now)
    took = formatting.show_duration(run_list.duration_seconds(status, seen.now))
    words = [
        f"created {created} ago" if created else "",
        f"{'took' if status.get('verdict') else 'runs for'} {took}" if took else "",
        f"ended {ended} ago" if ended else "",
    ]
    times = ", ".join(word for word in words if word)
    return [*([field("When", times)] if times else []), *([field("Steps", timeline)] if timeline else [])]


def _cases(status: Mapping[str, Any]) -> list[Line]:
    counts = run_list.counts(status)
    return [field("Cases", status_lines.counted(counts))] if counts.total else []
