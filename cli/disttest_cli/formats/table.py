"""A report as plain text."""

from collections.abc import Sequence

from disttest_cli.formats import bandwidth, case_text, values
from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome, Verdict
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.results.thresholds import Threshold
from disttest_contract.text import escaping, formatting

COLUMNS = ("SUITE", "VERDICT", "CASES", "PASSED", "FAILED", "NOT RUN", "OTHER", "SECONDS")
QUARANTINED = "QUARANTINED"  # column after FAILED, if there are such cases
LEGEND = "FAILED: failed, errored, crashed or hung outside of quarantine. OTHER: skipped, or expected to fail."
LEFT = 2  # number of text columns; the others are numbers
MAX_FAILURES = 20
MESSAGE_LINES = 8
LINE_BYTES = 400


def render_report(report: Report, thresholds: Sequence[Threshold] = ()) -> str:
    """Suites, failures, bandwidths with their thresholds, timing and verdict; ends with a newline."""
    lines = [
        (
            f"{report.namespace}/{report.name}, attempt {report.attempt}: "
            f"{formatting.gang_size(report.nodes, report.ranks_per_node)} with {report.backend}{_versions(report)}"
        ),
        "",
        *_table(_rows(report)),
        LEGEND,
    ]
    broken = [suite for suite in report.suites if suite.verdict is Verdict.ERRORED or not suite.cases]
    for suite in broken:
        lines += ["", f"{suite.name}: {suite.reason}", *_indented(suite.message)]
    for suite_name, case in report.interrupted:
        lines += ["", f"{suite_name}: {case.id}: {_ending(case)}", *_indented(case.message)]
    failures = report.failures
    for suite_name, case in failures[:MAX_FAILURES]:
        lines += ["", f"{suite_name}: {case.id}: {_ending(case)}", *_indented(case.message)]
        lines += _indented("\n".join(case_text.logs_of(case)))
    if len(failures) > MAX_FAILURES:
        lines += ["", f"{formatting.counted(len(failures) - MAX_FAILURES, 'more failure')} in the report"]
    lines += _flaky(report)
    lines += _quarantined(report)
    lines += _bandwidth(report, thresholds)
    if report.trimmed:
        lines += ["", f"omitted from the report because of its size: {report.trimmed}"]
    first_line = report.message.splitlines()[0] if report.message else ""
    lines += ["", *_timing_and_transport(report), f"{report.verdict} ({report.reason}): {first_line}"]
    return "\n".join(map(escaping.exact_line, lines)) + "\n"


def _rows(report: Report) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [COLUMNS]
    rows += [
        (suite.name, suite.verdict.value, *_numbers(suite.counts), _seconds(suite.seconds)) for suite in report.suites
    ]
    counts = [QUARANTINED, *(str(suite.counts.quarantined) for suite in report.suites)]
    if len(report.suites) > 1:
        rows.append(("total", str(report.verdict), *_numbers(report.counts), _seconds(_run_seconds(report))))
        counts.append(str(report.counts.quarantined))
    if not report.excused:
        return rows
    place = COLUMNS.index("FAILED") + 1
    return [(*row[:place], count, *row[place:]) for row, count in zip(rows, counts, strict=True)]


def _bandwidth(report: Report, thresholds: Sequence[Threshold]) -> list[str]:
    rows, note = bandwidth.rows(report, thresholds)
    return ["", *_table(rows), *([note] if note else [])] if rows else []


def _numbers(counts: Counts) -> tuple[str, ...]:
    """Cells of CASES, PASSED, FAILED, NOT RUN and OTHER, as LEGEND describes them."""
    passed, not_run = counts[Outcome.PASSED], counts[Outcome.NOT_RUN]
    other = counts.total - passed - counts.bad - not_run
    return tuple(str(number) for number in (counts.total, passed, counts.red, not_run, other))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    padded = [
        [cell.ljust(width) if place < LEFT else cell.rjust(width) for place, (cell, width) in enumerate(cells)]
        for cells in (zip(row, widths, strict=True) for row in rows)
    ]
    return ["  ".join(cells).rstrip() for cells in padded]


def _ending(case: CaseResult) -> str:
    how = case.signal or (f"exit code {case.exit_code}" if case.exit_code is not None else "")
    details = " ".join(part for part in (how, values.where(case.ranks, case.nodes)) if part)
    return f"{case.ending} after {case.seconds:.2f} s" + (f" ({details})" if details else "")


def _flaky(report: Report) -> list[str]:
    cases = [(suite.name, case) for suite in report.suites for case in suite.cases if case.is_flaky]
    lines = []
    for suite_name, case in cases[:MAX_FAILURES]:
        tries = "; then ".join(
            f"{one.outcome.value} {values.where(one.ranks, one.nodes)}".rstrip() for one in case.earlier
        )
        lines += ["", f"{suite_name}: {case.id}: flaky: {tries}; then passed", *_indented(case.earlier[0].message)]
    if len(cases) > MAX_FAILURES:
        lines += ["", f"{formatting.counted(len(cases) - MAX_FAILURES, 'more flaky case')} in the report"]
    return lines


def _quarantined(report: Report) -> list[str]:
    """One line per case, since these failures are known."""
    cases = report.excused
    lines = [f"{suite_name}: {case.id}: in quarantine: {_ending(case)}" for suite_name, case in cases[:MAX_FAILURES]]
    if len(cases) > MAX_FAILURES:
        lines.append(f"{formatting.counted(len(cases) - MAX_FAILURES, 'more case')} in quarantine in the report")
    return ["", *lines] if lines else []


def _indented(message: str) -> list[str]:
    """The first line, which names the rank, and the last ones, which name the exception."""
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) > MESSAGE_LINES:
        lines = [lines[0], "…", *lines[2 - MESSAGE_LINES :]]
    return [f"    {limits.cut(line, LINE_BYTES)}" for line in lines]


def _timing_and_transport(report: Report) -> list[str]:
    network = values.transport(report)
    return [_timing(report), *([f"transport: {network}"] if network else [])]


def _timing(report: Report) -> str:
    steps = [
        ("joined", report.started, report.joined),
        ("first case", report.joined, report.first_case),
        ("cases", report.first_case, report.last_case),
        ("end", report.last_case, report.finished),
    ]
    parts = [f"{name} {end - start:.1f} s" for name, start, end in steps if start is not None and end is not None]
    restarts = report.generations - len(report.suites)  # each suite starts with one generation
    again = f"; ranks restarted {formatting.counted(restarts, 'time')}" if restarts > 0 else ""
    return f"timing: {', '.join([*parts, f'total {_seconds(_run_seconds(report))} s'])}{again}"


def _run_seconds(report: Report) -> float:
    return report.finished - report.started


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}"


def _versions(report: Report) -> str:
    shown = [f"{name} {report.versions[name]}" for name in ("torch", "nccl", "python") if name in report.versions]
    return f" ({', '.join(shown)})" if shown else ""
