"""One screen about a run: what it came to, why, where, what to do; then the details. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from disttest_cli.formats.advice import ENDINGS, WHO_HOLDS_GPUS
from disttest_cli.kube import fields, runs
from disttest_cli.kube.client import Body
from disttest_cli.views import run_table, status_lines, terminal
from disttest_cli.views.terminal import Line
from disttest_contract.outcomes import Reason
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting
from disttest_operator.core.api.conditions import ConditionType, GangReadyReason

WAITS: Mapping[str, str] = {
    GangReadyReason.TOO_FEW_GPUS: ENDINGS[Reason.TOO_FEW_GPUS],
    GangReadyReason.UNSCHEDULABLE: f"{WHO_HOLDS_GPUS}; nodeSelector, tolerations and taints decide too.",
    GangReadyReason.SCHEDULING: "Wait: nodes are being looked for.",
    GangReadyReason.STARTING: "Wait: images are being pulled and containers made.",
    GangReadyReason.SUSPENDED: (
        "Wait for the queue (kubectl get workloads), or set spec.suspend to false if a person suspended it."
    ),
    GangReadyReason.OLDER_RUN: "Wait, or cancel the older run: spec.concurrencyPolicy is Wait.",
    GangReadyReason.RUNNING: "",
}
NO_OPERATOR = "If this stays so for a minute: `disttest doctor` says whether an operator is there."
ANOTHER_ATTEMPT = "Another gang is made by itself; what ended the one before is below."
UNKNOWN = "The message says what happened; this command line is older than the operator and knows no more."
SLOW = (
    "Bandwidth below its threshold: look at link speeds, clocks and the slowest rank's node (docs/runbook.md, "
    "DistTestBandwidthBelowReference)."
)
FLAKY = "Flaky cases passed only when they were tried again: always the same node or rank is a weak link, not a test."
SUSPECTS = "Cordon confirmed suspect nodes; let a run of one node go to the others: a pass clears them."


def advice_for_run(status: Mapping[str, Any]) -> list[str]:
    """What to do about this run, the most important first; nothing if there is nothing to do."""
    if not status.get("verdict"):
        waits = _waiting(status)
        return [waits] if waits else []
    said = [_ending(fields.text(status.get("reason")))]
    if any(row.get("ok") is False for row in fields.rows(status.get("bandwidth"))):
        said.append(SLOW)
    if fields.rows(status.get("suspectNodes")):
        said.append(SUSPECTS)
    if fields.count(fields.mapping(status.get("cases")).get("flaky")):
        said.append(FLAKY)
    return said


def _ending(reason: str) -> str:
    return ENDINGS[Reason(reason)] if reason in set(Reason) else UNKNOWN


def _waiting(status: Mapping[str, Any]) -> str:
    if not status.get("phase"):
        return NO_OPERATOR
    rows = fields.rows(status.get("conditions"))
    gang = next((row for row in rows if row.get("type") == ConditionType.GANG_READY.value), None)
    if gang is None or gang.get("status") == "True":
        return ""
    reason = fields.text(gang.get("reason"))
    if reason in WAITS:
        return WAITS[reason]
    return ANOTHER_ATTEMPT if reason in set(Reason) else UNKNOWN


LABEL_WIDTH = 10
BAR_WIDTH = 30
SHOWN_NODES = 8
STEPS = ("queued", "scheduled", "pulled", "joined", "ran", "collected")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRun:
    """A run and what belongs to it. `notes` say what could not be looked at."""

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
        return fields.text(fields.metadata(self.body).get("namespace"))

    @property
    def name(self) -> str:
        return fields.name(self.body)


def summary(seen: DescribedRun) -> list[Line]:
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


def _headline(seen: DescribedRun) -> list[Line]:
    status = seen.status
    name = f"{seen.namespace}/{seen.name}: "
    if verdict := fields.text(status.get("verdict")):
        reason = fields.text(status.get("reason"))
        return [terminal.line((name, terminal.STRONG), terminal.styled(verdict), f" ({reason})" if reason else "")]
    phase = fields.text(status.get("phase"))
    attempt = fields.count(status.get("attempt"))
    words = f"{phase}, attempt {attempt}" if phase and attempt > 1 else phase or status_lines.NOBODY
    return [terminal.line((name, terminal.STRONG), words)]


def _message(status: Mapping[str, Any]) -> list[Line]:
    label = "Why" if status.get("verdict") else "Waits for"
    message = escaping.line(fields.text(status.get("message")))
    return [field(label, message)] if message else []


def _to_do(status: Mapping[str, Any]) -> list[Line]:
    return [field("To do" if not place else "", words) for place, words in enumerate(advice_for_run(status))]


def _progress(seen: DescribedRun) -> list[Line]:
    status = seen.status
    told = fields.mapping(status.get("progress"))
    if status.get("verdict") or not told:
        return []
    done, total = fields.count(told.get("casesDone")), fields.count(told.get("casesTotal"))
    suite, case = fields.text(told.get("suite")), fields.text(told.get("currentCase"))
    suites = len(fields.rows(fields.spec(seen.body).get("suites")))
    where = f", suite {min(fields.count(told.get('suitesDone')) + 1, suites)} of {suites}: {suite}" if suite else ""
    age = formatting.since(fields.moment(told.get("time")), seen.now)
    lines = [field("Progress", bar(done, total), f" {done}/{total} cases{where}")] if total else []
    lines += [field("In flight", escaping.line(case))] if case else []
    joined = f"{fields.count(told.get('nodesJoined'))} of {runs.nodes(seen.body)} nodes"
    return [*lines, field("Joined", f"{joined}; all this {age} ago" if age else joined)]


def bar(done: int, total: int) -> str:
    filled = min(BAR_WIDTH, BAR_WIDTH * done // total) if total > 0 else 0
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"


def _where(seen: DescribedRun) -> list[Line]:
    body, status = seen.body, seen.status
    nodes, per_node = runs.nodes(body), runs.ranks_per_node(body)
    size = f"{nodes} {'node' if nodes == 1 else 'nodes'} x {per_node} ranks over {runs.backend(body)}"
    gpus = fields.count(status.get("gpus"))
    names = _node_names(seen)
    shown = ", ".join(names[:SHOWN_NODES]) + (f" and {len(names) - SHOWN_NODES} more" if names[SHOWN_NODES:] else "")
    series = fields.text(status.get("series") or fields.spec(body).get("series"))
    lines = [field("Where", size, f", {gpus} GPUs" if gpus else "", f": {shown}" if shown else "")]
    return [*lines, *([field("Series", series)] if series else [])]


def _node_names(seen: DescribedRun) -> list[str]:
    """Of the newest attempt."""
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
    timeline = ", ".join(f"{step} {formatting.span(seconds)}" for step, seconds in parts if seconds is not None)
    created = formatting.since(fields.moment(fields.metadata(seen.body).get("creationTimestamp")), seen.now)
    ended = formatting.since(fields.moment(status.get("completionTime")), seen.now)
    took = formatting.span(run_table.duration_seconds(status, seen.now))
    words = [
        f"created {created} ago" if created else "",
        f"{'took' if status.get('verdict') else 'runs for'} {took}" if took else "",
        f"ended {ended} ago" if ended else "",
    ]
    said = ", ".join(word for word in words if word)
    return [*([field("When", said)] if said else []), *([field("Steps", timeline)] if timeline else [])]


def _cases(status: Mapping[str, Any]) -> list[Line]:
    counts = run_table.counts(status)
    return [field("Cases", status_lines.counted(counts))] if counts.total else []
