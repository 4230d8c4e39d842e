"""Markdown for GitHub's job summaries and comments, within a size limit."""

from collections.abc import Callable, Mapping, Sequence

from disttest_cli.formats import bandwidth, case_text, gfm, test_status, values
from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import formatting

MOST_NODES = 16  # by name
MOST_VALUES = 8  # of one fact
FACTS = ("GPUs", "driver", "CUDA error", "kernel")


def environment_facts(report: Report) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in list(report.versions.items())[: 2 * MOST_NODES])
    settings = ", ".join(f"{name}: {value}" for name, value in list(report.settings.items())[: 2 * MOST_NODES])
    known = [
        ("nodes", formatting.listed(report.node_names, MOST_NODES)),
        ("versions", versions),
        ("settings", settings),
        ("transport", values.transport(report)),
    ]
    known += [(name, _by_node(report.preflight, values.NODE_FACTS[name])) for name in FACTS]
    return [(name, value) for name, value in known if value]


def _by_node(nodes: Sequence[NodeFacts], read: Callable[[NodeFacts], str]) -> str:
    by_value = values.grouped((one.node_name, read(one)) for one in nodes)
    if len(by_value) <= 1:
        return next(iter(by_value), "")
    shown = [f"{value or 'unknown'} on {formatting.listed(names, MOST_NODES)}" for value, names in by_value.items()]
    return "; ".join(shown[:MOST_VALUES]) + (
        f"; and {len(shown) - MOST_VALUES} more" if len(shown) > MOST_VALUES else ""
    )


SUMMARY_BYTES = 1024 << 10  # GitHub's limit for one step
MARGIN_BYTES = 8 << 10  # left for other output of the step
DEFAULT_BYTES = SUMMARY_BYTES - MARGIN_BYTES
LEAST_BYTES = 4096  # enough for the verdict and the note
MESSAGE_BYTES = 1000
SUITES, LISTED = 64, 40  # rows; flaky and known failures
MOST_ATTEMPTS = 8
SHARE = 0.4  # of the whole, for sections other than failures
NOTE_BYTES = 400  # for the note about omitted sections
DETAILED = 200  # failures with details, if there is room
LARGEST_BYTES, SMALLEST_BYTES = 16 << 10, 700  # of one failure's details
SIGNS = {Verdict.PASSED: "✅", Verdict.INFRA_FAILED: "⚠️", Verdict.CANCELLED: "⚠️"}
BAD_SIGN = "❌"


def render(subject: Subject, limit_bytes: int = DEFAULT_BYTES) -> str:
    """Failures use the space that other sections leave; omitted sections are named at the end."""
    report, head = subject.report, _head(subject)
    above = {
        "suites": _suites(report),
        "the interrupted case": _interrupted(report),
        "earlier attempts": _attempts(subject),
    }
    below = {
        "bandwidth": _bandwidth(report),
        "flaky cases": _flaky(report),
        "cases in quarantine": _quarantined(report),
        "environment": _environment(report),
    }
    dropped = _too_large(above | below, int((limit_bytes - gfm.size(head)) * SHARE) - NOTE_BYTES)
    before, after = ("".join(some[what] for what in some if what not in dropped) for some in (above, below))
    failures = _failures(report, limit_bytes - gfm.size(f"{head}{before}{after}") - NOTE_BYTES)
    note = f"\n_Omitted because of the size limit: {', '.join(dropped)}._\n" if dropped else ""
    return f"{head}{before}{failures}{after}{note}"


def _too_large(sections: Mapping[str, str], room_bytes: int) -> list[str]:
    """Sections for which there is no room; the most important ones come first."""
    dropped = []
    for what, text in sections.items():
        if gfm.size(text) <= room_bytes:
            room_bytes -= gfm.size(text)
        elif text:
            dropped.append(what)
    return dropped


def _head(subject: Subject) -> str:
    report = subject.report
    sign = SIGNS.get(report.verdict, BAD_SIGN)
    name = gfm.code(f"{report.namespace}/{report.name}")
    lines = [f"# {sign} {report.verdict.value} ({report.reason.value}): {name}\n"]
    if report.message.strip():
        lines.append(f"{gfm.code(report.message, MESSAGE_BYTES)}\n")
    counts = report.counts
    flaky = f", {counts.flaky} flaky" if counts.flaky else ""
    known = f", {counts.quarantined} in quarantine" if counts.quarantined else ""
    other = counts.total - counts[Outcome.PASSED] - counts.bad - counts[Outcome.NOT_RUN]
    lines.append(
        f"**{formatting.counted(counts.total, 'case')}**: {counts[Outcome.PASSED]} passed, {counts.red} failed, "
        f"{counts[Outcome.NOT_RUN]} not run, {other} skipped or expected to fail{flaky}{known}; "
        f"{_world(report)}; {_when(report)}.\n"
    )
    if report.trimmed:
        lines.append(f"The report was trimmed because of its size. Omitted: {gfm.code(report.trimmed)}.\n")
    return "\n".join(lines)


def _world(report: Report) -> str:
    series = f", series {gfm.code(report.series)}" if report.series else ""
    size = formatting.gang_size(report.nodes, report.ranks_per_node)
    return f"{size} with {gfm.code(report.backend)}, attempt {report.attempt}{series}"


def _when(report: Report) -> str:
    started = values.show_moment(report.started, "at an unknown time")
    return f"{started}, {values.seconds(report.finished - report.started):.1f} s"


def _suites(report: Report) -> str:
    if not report.suites:
        return ""
    rows = [_suite_row(suite) for suite in report.suites[:SUITES]]
    more = len(report.suites) - len(rows)
    rows += [[f"{more} more", *[""] * 6]] if more > 0 else []
    head = ("Suite", "Verdict", "Cases", "Passed", "Failed", "Not run", "Seconds")
    text = f"\n## Suites\n\n{gfm.table(head, rows, numbers=frozenset(range(2, 7)))}"
    for suite in report.suites[:SUITES]:
        if notice := test_status.of_suite(suite):
            text += f"\n- {gfm.code(suite.name)}: {gfm.code(test_status.sentence(notice), MESSAGE_BYTES)}\n"
    return text


def _suite_row(suite: SuiteResult) -> list[str]:
    counts, sign = suite.counts, SIGNS.get(suite.verdict, BAD_SIGN)
    numbers = (counts.total, counts[Outcome.PASSED], counts.red, counts[Outcome.NOT_RUN])
    shown = [str(number) for number in numbers]
    return [gfm.cell(suite.name), f"{sign} {suite.verdict.value}", *shown, f"{values.seconds(suite.seconds):.1f}"]


def _interrupted(report: Report) -> str:
    details = [_details(suite, case, LARGEST_BYTES) for suite, case in report.interrupted[:1]]
    return "".join(["\n## Interrupted\n\n", *details]) if details else ""


def _attempts(subject: Subject) -> str:
    lines = []
    for record in list(subject.status.get("attempts") or ())[-MOST_ATTEMPTS:]:
        if record.get("number") != subject.report.attempt:
            said = f"{record.get('verdict', '')} ({record.get('reason', '')}): {record.get('message', '')}"
            lines.append(f"- Attempt {gfm.code(str(record.get('number', '?')))}: {gfm.code(said, MESSAGE_BYTES)}\n")
    return "".join(["\n## Earlier attempts\n\n", *lines]) if lines else ""


def _failures(report: Report, room_bytes: int) -> str:
    """Failures with details while there is room, then by name; the others are counted."""
    failures, count = report.failures, report.counts.red
    if not count:
        return ""
    title = f"\n## Failures ({count})\n\n"
    room_bytes -= gfm.size(title)
    share = room_bytes * 4 // 5  # for details
    limit = max(SMALLEST_BYTES, min(LARGEST_BYTES, share // max(1, min(len(failures), DETAILED))))
    parts: list[str] = [title]
    for suite, case in failures:
        text = _details(suite, case, limit)
        if gfm.size(text) > share:
            break
        share -= gfm.size(text)
        room_bytes -= gfm.size(text)
        parts.append(text)
    shown = len(parts) - 1
    for suite, case in failures[shown:]:
        line = f"- {gfm.code(f'{suite}: {case.id}')}: {gfm.code(case_text.ending(case))}\n"
        if gfm.size(line) > room_bytes:
            break
        room_bytes -= gfm.size(line)
        parts.append(line)
    if left_out := len(failures) - (len(parts) - 1):
        parts.append(f"\n**{formatting.counted(left_out, 'more failure')}** in the report.\n")
    if lost := count - len(failures):
        parts.append(
            f"\n**{formatting.counted(lost, 'more failure')}** omitted from the report because of its size limit.\n"
        )
    return "".join(parts)


def _details(suite: str, case: CaseResult, limit_bytes: int) -> str:
    summary = f"{gfm.html_code(f'{suite}: {case.id}')} {gfm.html_code(case_text.ending(case))}"
    return gfm.details(summary, gfm.block(case_text.case_body(case, limit_bytes), limit_bytes))


def _flaky(report: Report) -> str:
    cases = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    lines = [
        f"- {gfm.code(f'{suite}: {case.id}')}: passed in try {len(case.earlier) + 1}; first try "
        f"{gfm.code(case_text.title(case.earlier[0].message, case.earlier[0].outcome.value), MESSAGE_BYTES)}\n"
        for suite, case in cases[:LISTED]
    ]
    return _list(f"Flaky ({len(cases)})", lines, len(cases))


def _quarantined(report: Report) -> str:
    cases = report.excused
    lines = [
        f"- {gfm.code(f'{suite}: {case.id}')}: {gfm.code(case_text.ending(case))}\n" for suite, case in cases[:LISTED]
    ]
    return _list(f"In quarantine ({len(cases)})", lines, len(cases))


def _list(title: str, lines: Sequence[str], count: int) -> str:
    if not lines:
        return ""
    more = f"\n{count - len(lines)} more are in the report.\n" if count > len(lines) else ""
    return "".join([f"\n## {title}\n\n", *lines, more])


def _bandwidth(report: Report) -> str:
    rows, note = bandwidth.rows(report, report.thresholds)
    if not rows:
        return ""
    head, *body = rows
    last = len(head) - 1
    bold = [[f"**{text}**" if text.startswith(bandwidth.MISSED) else text for text in row] for row in body]
    cells = [[gfm.cell(text) if place in (0, 1, last) else text for place, text in enumerate(row)] for row in bold]
    table = gfm.table([text.capitalize() for text in head], cells, numbers=frozenset(range(2, last)))
    return f"\n## Bandwidth\n\n{table}" + (f"\n{note}\n" if note else "")


def _environment(report: Report) -> str:
    lines = [f"- {name}: {gfm.code(value, MESSAGE_BYTES)}\n" for name, value in environment_facts(report)]
    return "".join(["\n## Environment\n\n", *lines]) if lines else ""
