"""One screen about a run: what it came to, why, where, what to do; then the details. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disttest_cli.kube import runs
from disttest_cli.kube.cluster import Body
from disttest_cli.screen import terminal
from disttest_cli.screen.terminal import Line
from disttest_cli.words import advice, following, lenient, listing
from disttest_contract import harmless, spans
from disttest_contract.report import Report

LABEL_WIDTH = 10
BAR_WIDTH = 30
SHOWN_NODES = 8
STEPS = ("queued", "scheduled", "pulled", "joined", "ran", "collected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run and what belongs to it. `notes` say what could not be looked at."""

    body: Body
    now: datetime
    pods: Sequence[Body] = ()
    events: Sequence[Body] = ()
    report: Report | None = None
    notes: Sequence[str] = ()

    @property
    def status(self) -> Mapping[str, Any]:
        return lenient.status(self.body)

    @property
    def namespace(self) -> str:
        return lenient.text(lenient.metadata(self.body).get("namespace"))

    @property
    def name(self) -> str:
        return lenient.name(self.body)


def summary(seen: Seen) -> list[Line]:
    """What everybody wants to know."""
    return [
        *_headline(seen),
        *_message(seen.status),
        *_to_do(seen.status),
        terminal.empty(),
        *_progress(seen),
        *_where(seen),
        *_suspects(seen.status),
        *_when(seen),
        *_cases(seen.status),
    ]


def field(label: str, *parts: str | Line | tuple[str, str]) -> Line:
    """A line with its label in front."""
    return terminal.line((label.ljust(LABEL_WIDTH), terminal.STRONG), " ", *parts)


def heading(words: str) -> list[Line]:
    return [terminal.empty(), terminal.line((words, terminal.STRONG))]


def _headline(seen: Seen) -> list[Line]:
    status = seen.status
    name = f"{seen.namespace}/{seen.name}: "
    if verdict := lenient.text(status.get("verdict")):
        reason = lenient.text(status.get("reason"))
        return [terminal.line((name, terminal.STRONG), terminal.styled(verdict), f" ({reason})" if reason else "")]
    phase = lenient.text(status.get("phase"))
    attempt = lenient.count(status.get("attempt"))
    words = f"{phase}, attempt {attempt}" if phase and attempt > 1 else phase or following.NOBODY
    return [terminal.line((name, terminal.STRONG), words)]


def _message(status: Mapping[str, Any]) -> list[Line]:
    label = "Why" if status.get("verdict") else "Waits for"
    message = harmless.line(lenient.text(status.get("message")))
    return [field(label, message)] if message else []


def _to_do(status: Mapping[str, Any]) -> list[Line]:
    return [field("To do" if not place else "", words) for place, words in enumerate(advice.for_run(status))]


def _progress(seen: Seen) -> list[Line]:
    status = seen.status
    told = lenient.mapping(status.get("progress"))
    if status.get("verdict") or not told:
        return []
    done, total = lenient.count(told.get("casesDone")), lenient.count(told.get("casesTotal"))
    suite, case = lenient.text(told.get("suite")), lenient.text(told.get("currentCase"))
    suites = len(lenient.rows(lenient.spec(seen.body).get("suites")))
    where = f", suite {min(lenient.count(told.get('suitesDone')) + 1, suites)} of {suites}: {suite}" if suite else ""
    age = spans.since(lenient.moment(told.get("time")), seen.now)
    lines = [field("Progress", bar(done, total), f" {done}/{total} cases{where}")] if total else []
    lines += [field("In flight", harmless.line(case))] if case else []
    joined = f"{lenient.count(told.get('nodesJoined'))} of {runs.nodes(seen.body)} nodes"
    return [*lines, field("Joined", f"{joined}; all this {age} ago" if age else joined)]


def bar(done: int, total: int) -> str:
    filled = min(BAR_WIDTH, BAR_WIDTH * done // total) if total > 0 else 0
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"


def _where(seen: Seen) -> list[Line]:
    body, status = seen.body, seen.status
    nodes, per_node = runs.nodes(body), runs.ranks_per_node(body)
    size = f"{nodes} {'node' if nodes == 1 else 'nodes'} x {per_node} ranks over {runs.backend(body)}"
    gpus = lenient.count(status.get("gpus"))
    names = _node_names(seen)
    shown = ", ".join(names[:SHOWN_NODES]) + (f" and {len(names) - SHOWN_NODES} more" if names[SHOWN_NODES:] else "")
    series = lenient.text(status.get("series") or lenient.spec(body).get("series"))
    lines = [field("Where", size, f", {gpus} GPUs" if gpus else "", f": {shown}" if shown else "")]
    return [*lines, *([field("Series", series)] if series else [])]


def _node_names(seen: Seen) -> list[str]:
    """Of the newest attempt."""
    attempt = max(map(runs.attempt_of, seen.pods), default=0)
    pods = [pod for pod in seen.pods if runs.attempt_of(pod) == attempt]
    names = [lenient.text(lenient.spec(pod).get("nodeName")) for pod in pods]
    records = lenient.rows(seen.status.get("attempts"))
    return list(dict.fromkeys(name for name in names if name)) or (
        lenient.texts(records[-1].get("nodes")) if records else []
    )


def _suspects(status: Mapping[str, Any]) -> list[Line]:
    lines: list[Line] = []
    for row in lenient.rows(status.get("suspectNodes")):
        how = "confirmed" if row.get("confirmed") is True else "not confirmed"
        words = f": {lenient.text(row.get('reason'))}, {how}: {following.one_line(row.get('evidence'))}"
        label = "" if lines else "Suspect"
        lines.append(field(label, (lenient.text(row.get("name")), terminal.WARNING), words))
    return lines


def _when(seen: Seen) -> list[Line]:
    status = seen.status
    steps = lenient.mapping(status.get("stepSeconds"))
    parts = [(step, lenient.number(steps.get(step))) for step in STEPS]
    timeline = ", ".join(f"{step} {spans.span(seconds)}" for step, seconds in parts if seconds is not None)
    created = spans.since(lenient.moment(lenient.metadata(seen.body).get("creationTimestamp")), seen.now)
    ended = spans.since(lenient.moment(status.get("completionTime")), seen.now)
    took = spans.span(listing.duration_seconds(status, seen.now))
    words = [
        f"created {created} ago" if created else "",
        f"{'took' if status.get('verdict') else 'runs for'} {took}" if took else "",
        f"ended {ended} ago" if ended else "",
    ]
    said = ", ".join(word for word in words if word)
    return [*([field("When", said)] if said else []), *([field("Steps", timeline)] if timeline else [])]


def _cases(status: Mapping[str, Any]) -> list[Line]:
    counts = listing.counts(status)
    return [field("Cases", following.counted(counts))] if counts.total else []
