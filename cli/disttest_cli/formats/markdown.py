"""Markdown for GitHub's job summaries and comments, within a size limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from disttest_cli.formats import bandwidth, case_text, gfm, test_status, values
from disttest_cli.formats.subject import Subject
from disttest_contract.outcomes import Outcome, Verdict
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report, SuiteResult
from disttest_contract.text import formatting

MOST_NODES = 16  # by name
MOST_VALUES = 8  # of one fact
FACTS: tuple[tuple[str, Callable[[NodeFacts], str]], ...] = (
    ("GPUs", lambda one: _gpus(one.gpus)),
    ("driver", lambda one: one.driver),
    ("CUDA error", lambda one: one.cuda_error),
    ("kernel", lambda one: one.kernel),
)


def environment_facts(report: Report) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {version}" for name, version in list(report.versions.items())[: 2 * MOST_NODES])
    known = [("nodes", formatting.listed(report.node_names, MOST_NODES)), ("versions", versions)]
    known += [(name, _by_node(report.preflight, read)) for name, read in FACTS]
    return [(name, value) for name, value in known if value]


def _by_node(nodes: Sequence[NodeFacts], read: Callable[[NodeFacts], str]) -> str:
    by_value: dict[str, list[str]] = {}
    for one in nodes:
        by_value.setdefault(read(one), []).append(one.node_name)
    if len(by_value) <= 1:
        return next(iter(by_value), "")
    shown = [f"{value or 'unknown'} on {formatting.listed(names, MOST_NODES)}" for value, names in by_value.items()]
    return "; ".join(shown[:MOST_VALUES]) + (
        f"; and {len(shown) - MOST_VALUES} more" if len(shown) > MOST_VALUES else ""
    )


def _gpus(products: Sequence[str]) -> str:
    kinds: dict[str, int] = {}
    for product in products:
        kinds[product] = kinds.get(product, 0) + 1
    return ", ".join(f"{count} x {product}" for product, count in kinds.items())


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


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownSection:
    what: str
    text: str


def render(subject: Subject, limit_bytes: int = DEFAULT_BYTES) -> str:
    """Failures get the room that other sections leave; omitted sections are named at the end."""
    report = subject.report
    head = _head(subject)
    above, below = _sections(subject)
    kept, dropped = _choose([*above, *below], int((limit_bytes - gfm.size(head)) * SHARE) - NOTE_BYTES)
    rest = sum(gfm.size(section.text) for section in kept)
    failures = _failures(report, limit_bytes - gfm.size(head) - rest - NOTE_BYTES)
    note = f"\n_Left out for size: {', '.join(section.what for section in dropped)}._\n" if dropped else ""
    parts = [section.text for section in above if section in kept]
    return "".join([head, *parts, failures, *(section.text for section in below if section in kept), note])


def _choose(
    sections: Sequence[MarkdownSection], room_bytes: int
) -> tuple[list[MarkdownSection], list[MarkdownSection]]:
    kept, dropped = [], []
    for section in sections:
        if not section.text:
            continue
        if gfm.size(section.text) <= room_bytes:
            room_bytes -= gfm.size(section.text)
            kept.append(section)
        else:
            dropped.append(section)
    return kept, dropped


def _sections(subject: Subject) -> tuple[list[MarkdownSection], list[MarkdownSection]]:
    """Sections above and below the failures, the most important first."""
    report = subject.report
    above = [
        MarkdownSection(what="suites", text=_suites(report)),
        MarkdownSection(what="the interrupted case", text=_interrupted(report)),
        MarkdownSection(what="earlier attempts", text=_attempts(subject)),
    ]
    below = [
        MarkdownSection(what="bandwidth", text=_bandwidth(report)),
        MarkdownSection(what="flaky cases", text=_flaky(report)),
        MarkdownSection(what="cases in quarantine", text=_quarantined(report)),
        MarkdownSection(what="environment", text=_environment(report)),
    ]
    return above, below


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
    red = counts.bad - counts.quarantined
    other = counts.total - counts[Outcome.PASSED] - counts.bad - counts[Outcome.NOT_RUN]
    lines.append(
        f"**{counts.total} cases**: {counts[Outcome.PASSED]} passed, {red} failed, {counts[Outcome.NOT_RUN]} not run, "
        f"{other} skipped or as expected{flaky}{known}; {_world(report)}; {_when(report)}.\n"
    )
    if report.trimmed:
        lines.append(f"The report itself was too large to be kept whole; left out of it: {gfm.code(report.trimmed)}.\n")
    return "\n".join(lines)


def _world(report: Report) -> str:
    series = f", series {gfm.code(report.series)}" if report.series else ""
    size = f"{report.nodes} nodes x {report.ranks_per_node} ranks over {gfm.code(report.backend)}"
    return f"{size}, attempt {report.attempt}{series}"


def _when(report: Report) -> str:
    moment = values.moment(report.started)
    started = f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "at an unknown time"
    return f"{started}, {values.seconds(report.finished - report.started):.1f} s"


def _suites(report: Report) -> str:
    if not report.suites:
        return ""
    rows = [_suite_row(suite) for suite in report.suites[:SUITES]]
    more = len(report.suites) - len(rows)
    rows += [[f"and {more} more", *[""] * 6]] if more > 0 else []
    head = ("Suite", "Verdict", "Cases", "Passed", "Failed", "Not run", "Seconds")
    text = f"\n## Suites\n\n{gfm.table(head, rows, numbers=frozenset(range(2, 7)))}"
    for suite in report.suites[:SUITES]:
        if notice := test_status.of_suite(suite):
            text += f"\n- {gfm.code(suite.name)}: {gfm.code(test_status.sentence(notice), MESSAGE_BYTES)}\n"
    return text


def _suite_row(suite: SuiteResult) -> list[str]:
    counts, sign = suite.counts, SIGNS.get(suite.verdict, BAD_SIGN)
    numbers = (counts.total, counts[Outcome.PASSED], counts.bad - counts.quarantined, counts[Outcome.NOT_RUN])
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
    failures, count = report.failures, sum(map(test_status.red, report.suites))
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
        parts.append(f"\n**{left_out} more failures are not shown here for size**: the report has them.\n")
    if lost := count - len(failures):
        parts.append(f"\n**{lost} more failures are not in the report for its size.**\n")
    return "".join(parts)


def _details(suite: str, case: CaseResult, limit_bytes: int) -> str:
    summary = f"{gfm.html_code(f'{suite}: {case.id}')} {gfm.html_code(case_text.ending(case))}"
    return gfm.details(summary, gfm.block(case_text.case_body(case, limit_bytes), limit_bytes))


def _flaky(report: Report) -> str:
    cases = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    lines = [
        f"- {gfm.code(f'{suite}: {case.id}')}: passed at try {len(case.earlier) + 1}; "
        f"first {gfm.code(case_text.title(case.earlier[0].message, case.earlier[0].outcome.value), MESSAGE_BYTES)}\n"
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
    more = f"\nand {count - len(lines)} more: the report has them.\n" if count > len(lines) else ""
    return "".join([f"\n## {title}\n\n", *lines, more])


def _bandwidth(report: Report) -> str:
    rows, note = bandwidth.rows(report, report.thresholds)
    if not rows:
        return ""
    head, *body = rows
    last = len(head) - 1
    cells = [
        [gfm.cell(text) if place in (0, 1, last) else _number(text) for place, text in enumerate(row)] for row in body
    ]
    table = gfm.table([text.capitalize() for text in head], cells, numbers=frozenset(range(2, last)))
    return f"\n## Bandwidth\n\n{table}" + (f"\n{note}\n" if note else "")


def _number(text: str) -> str:
    return f"**{text}**" if text.startswith(bandwidth.MISSED) else text


def _environment(report: Report) -> str:
    lines = [f"- {name}: {gfm.code(value, MESSAGE_BYTES)}\n" for name, value in environment_facts(report)]
    return "".join(["\n## Environment\n\n", *lines]) if lines else ""
