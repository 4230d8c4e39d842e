"""The lower part of `describe`: tables of attempts, pods, suites, failures, bandwidths and events."""

from collections.abc import Mapping, Sequence
from typing import Any

from disttest_cli import fields
from disttest_cli.formats import values
from disttest_cli.kube import runs
from disttest_cli.kube.client import Body
from disttest_cli.views import status_lines, terminal
from disttest_cli.views.description import DescribedRun, heading
from disttest_cli.views.terminal import Line
from disttest_contract.outcomes import BAD, Counts, Outcome, Verdict
from disttest_contract.results.report import Report
from disttest_contract.text import escaping, formatting

SHOWN_FAILURES = 20
SHOWN_SLOW = 5
SHOWN_EVENTS = 8
SHOWN_PODS = 16
SHOWN_BANDWIDTHS = 10
MESSAGE_LINES = 4
LINE_CHARACTERS = 300
SLOW_SECONDS = 0.1  # shorter cases are not listed
LEGEND = (
    "FAILED: failed, errored, crashed or hung outside of quarantine. "
    "OTHER: skipped, expected to fail, or in quarantine."
)


def all_of(seen: DescribedRun) -> list[Line]:
    status = seen.status
    return [
        *_attempts(status),
        *_pods(seen.pods),
        *_suites(status),
        *_failures(status),
        *_bandwidth(status),
        *(_slowest(seen.report) if seen.report else []),
        *_events(seen),
        *_further(seen),
    ]


def _attempts(status: Mapping[str, Any]) -> list[Line]:
    """Attempts, if there are several or the only one has a first failure."""
    records = fields.rows(status.get("attempts"))
    if not records or (len(records) == 1 and not fields.mapping(records[0].get("firstFailure"))):
        return []
    rows: list[list[str | Line]] = [["ATTEMPT", "VERDICT", "REASON", "NODES", "ENDED FIRST"]]
    for record in records:
        number, verdict, reason = (fields.text(record.get(key)) for key in ("number", "verdict", "reason"))
        nodes = formatting.listed(fields.texts(record.get("nodes")), 4)
        first = _first_failure(fields.mapping(record.get("firstFailure")))
        rows.append([number, terminal.styled(verdict), reason, nodes, first])
    return [terminal.line(), *terminal.table(rows)]


def _first_failure(first: Mapping[str, Any]) -> str:
    signal, code = fields.text(first.get("signal")), fields.text(first.get("exitCode"))
    how = f"signal {signal}" if signal else f"exit code {code}" if code else ""
    where = f"{fields.text(first.get('pod'))} on {fields.text(first.get('node'))}" if first.get("pod") else ""
    rank = f"at fault: rank {fields.text(first.get('rank'))}" if "rank" in first else ""  # may be in another pod
    case = f"in {fields.text(first.get('case'))}" if first.get("case") else ""
    return status_lines.one_line(", ".join(part for part in (where, how, case, rank) if part))


def _pods(pods: Sequence[Body]) -> list[Line]:
    newest = max(map(runs.attempt_of, pods), default=0)
    shown = [pod for pod in pods if runs.attempt_of(pod) == newest]
    if not shown:
        return []
    rows: list[list[str | Line]] = [["INDEX", "POD", "NODE", "STATE"]]
    for pod in shown[:SHOWN_PODS]:
        node = fields.text(fields.spec(pod).get("nodeName"))
        rows.append([str(runs.node_index(pod)), fields.name(pod), node, _pod_state(pod)])
    more = len(shown) - SHOWN_PODS
    return [
        terminal.line(),
        *terminal.table(rows),
        *([terminal.line(formatting.counted(more, "more pod"))] if more > 0 else []),
    ]


def _pod_state(pod: Body) -> str:
    status = fields.status(pod)
    phase = fields.text(status.get("phase"))
    for container in fields.rows(status.get("containerStatuses")):
        state = fields.mapping(container.get("state"))
        ended, waiting = fields.mapping(state.get("terminated")), fields.mapping(state.get("waiting"))
        if ended:
            return f"{fields.text(ended.get('reason')) or phase}, exit code {fields.text(ended.get('exitCode'))}"
        if waiting:
            return fields.text(waiting.get("reason")) or phase
    return phase


def _suites(status: Mapping[str, Any]) -> list[Line]:
    suites = fields.rows(status.get("suites"))
    if not suites:
        return []
    head: list[str | Line] = ["SUITE", "VERDICT", "CASES", "PASSED", "FAILED", "NOT RUN", "OTHER", "TOOK"]
    rows = [head]
    for suite in suites:
        counts = Counts.from_json(fields.mapping(suite.get("cases")))
        passed, not_run, red = counts[Outcome.PASSED], counts[Outcome.NOT_RUN], counts.red
        numbers = (counts.total, passed, red, not_run, counts.total - passed - red - not_run)
        took = formatting.show_duration(fields.number(suite.get("seconds")))
        verdict = terminal.styled(fields.text(suite.get("verdict")))
        rows.append([fields.text(suite.get("name")), verdict, *map(str, numbers), took])
    lines = [terminal.line(), *terminal.table(rows, numbers=frozenset(range(2, 8)))]
    broken = [suite for suite in suites if suite.get("verdict") == Verdict.ERRORED.value]
    messages = [f"{fields.text(suite.get('name'))}: {status_lines.one_line(suite.get('message'))}" for suite in broken]
    return [*lines, terminal.line((LEGEND, terminal.QUIET)), *map(terminal.line, messages)]


def _failures(status: Mapping[str, Any]) -> list[Line]:
    is_over = bool(status.get("verdict"))
    failures = fields.rows(status.get("failures") or fields.mapping(status.get("progress")).get("failures"))
    if not failures:
        return []
    lines = heading("Failures" if is_over else "Failures so far")
    for failure in failures[:SHOWN_FAILURES]:
        lines += _failure(failure)
    counts = Counts.from_json(fields.mapping(status.get("cases")))
    if (more := counts.bad + counts.flaky - len(failures)) > 0 and is_over:
        lines.append(terminal.line(f"  {more} more are in the report"))
    return lines


def _failure(failure: Mapping[str, Any]) -> list[Line]:
    outcome = fields.text(failure.get("outcome"))
    mark = next((f" ({mark})" for mark in ("flaky", "quarantined") if failure.get(mark) is True), "")
    where = values.where(fields.rank_words(failure.get("ranks")), fields.texts(failure.get("nodes")))
    took = formatting.show_duration(fields.number(failure.get("seconds")))
    case = status_lines.one_line(f"{fields.text(failure.get('suite'))}: {fields.text(failure.get('case'))}")
    style = terminal.BROKEN if outcome in {bad.value for bad in BAD} and not mark else terminal.WARNING
    head = terminal.line(
        "  ", (outcome, style), f"{mark} {case}{f', {where}' if where else ''}", f" after {took}" if took else ""
    )
    message = status_lines.gist_of(fields.text(failure.get("message")))[:MESSAGE_LINES]
    return [head, *(terminal.line(f"      {escaping.exact_line(one[:LINE_CHARACTERS])}") for one in message)]


def _bandwidth(status: Mapping[str, Any]) -> list[Line]:
    measured = fields.rows(status.get("bandwidth"))
    if not measured:
        return []
    rows: list[list[str | Line]] = [["BANDWIDTH", "TYPE", "SIZE", "BUS", "THRESHOLD"]]
    for row in measured[:SHOWN_BANDWIDTHS]:
        bus = fields.number(row.get("busBandwidthBytesPerSecond"))
        threshold = fields.number(row.get("thresholdBytesPerSecond"))
        limit = formatting.show_speed(threshold) if threshold else ""
        size = formatting.show_bytes(fields.count(row.get("sizeBytes")))
        reached = formatting.show_speed(bus) if bus is not None else "not measured"
        verdict = terminal.line((f"missed: {limit}", terminal.BROKEN)) if row.get("ok") is False else limit
        rows.append(
            [fields.text(row.get("collective")), fields.text(row.get("dtype")) or "any", size, reached, verdict]
        )
    return [terminal.line(), *terminal.table(rows, numbers=frozenset({2, 3}))]


def _slowest(report: Report) -> list[Line]:
    cases = [(case.seconds, suite.name, case) for suite in report.suites for case in suite.cases]
    slow = sorted((one for one in cases if one[0] >= SLOW_SECONDS), key=lambda one: -one[0])[:SHOWN_SLOW]
    if not slow:
        return []
    rows: list[list[str | Line]] = [
        [formatting.show_duration(seconds), terminal.styled(case.outcome.value), suite, status_lines.one_line(case.id)]
        for seconds, suite, case in slow
    ]
    head = ["SLOWEST", "OUTCOME", "SUITE", "CASE"]
    return [terminal.line(), *terminal.table([head, *rows], numbers=frozenset({0}))]


def _events(seen: DescribedRun) -> list[Line]:
    timed = [(_event_time(event), event) for event in fields.rows(list(seen.events))]
    known = sorted(((at, event) for at, event in timed if at), key=lambda one: one[0])[-SHOWN_EVENTS:]
    if not known:
        return []
    rows: list[list[str | Line]] = [["EVENT", "TYPE", "REASON", "MESSAGE"]]
    for at, event in known:
        kind = fields.text(event.get("type"))
        style = terminal.WARNING if kind == "Warning" else ""
        reason, message = fields.text(event.get("reason")), status_lines.one_line(event.get("message"))
        rows.append([formatting.show_age(at, seen.now), terminal.line((kind, style)), reason, message])
    return [terminal.line(), *terminal.table(rows)]


def _event_time(event: Mapping[str, Any]) -> Any:
    for key in ("lastTimestamp", "eventTime", "firstTimestamp"):
        if at := fields.moment(event.get(key)):
            return at
    return None


def _further(seen: DescribedRun) -> list[Line]:
    status, where = seen.status, f"{seen.name} -n {seen.namespace}"
    lines = []
    stored = fields.text(fields.mapping(status.get("report")).get("configMap"))
    if stored:
        lines += [terminal.line(f"  disttest report {where} -o html={seen.name}.html      # from ConfigMap {stored}")]
    if status.get("verdict"):
        lines += [terminal.line(f"  disttest logs {where} --failed")] if status["verdict"] != "Passed" else []
    else:
        lines += [terminal.line(f"  disttest logs {where} --follow")]
    notes = [terminal.line((f"  {escaping.line(note)}", terminal.QUIET)) for note in seen.notes]
    return [*(heading("Next steps") if lines else []), *lines, *(heading("Not shown") if notes else []), *notes]
