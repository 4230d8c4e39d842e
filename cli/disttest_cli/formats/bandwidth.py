"""Measured bandwidths as table rows: those with a threshold, and the largest size of each collective and type."""

from collections.abc import Sequence

from disttest_contract.results import thresholds
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import Report
from disttest_contract.results.thresholds import Threshold, ThresholdResult
from disttest_contract.text import formatting
from disttest_contract.text.formatting import BYTES, BYTES_PER_SECOND

COLUMNS = ("BANDWIDTH", "TYPE", "SIZE", "TIME", "ALGORITHM", "BUS", "WRONG", "SLOWEST RANK")
THRESHOLD = "THRESHOLD"  # column after BUS, if there are thresholds
MISSED = "missed: "  # prefix of a threshold that was not reached
MAX_ROWS = 40
NOTABLE = 1.1  # times the median: slowdown from which the slowest rank is shown

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def rows(report: Report, wanted: Sequence[Threshold] = ()) -> tuple[list[Sequence[str]], str]:
    """The table with its header, and a note about omitted rows; both are empty without measurements and thresholds."""
    measured = [one for suite in report.suites for case in suite.cases for one in case.measurements]
    shown = thresholds.standings(measured, wanted)[:MAX_ROWS]
    if not shown:
        return [], ""
    left_out = len(measured) - sum(one.measured is not None for one in shown)
    more = formatting.counted(left_out, "more measurement")
    note = f"{more}, mostly of smaller sizes, in the report" if left_out else ""
    table = [COLUMNS, *(_row(one, report) for one in shown)]
    if not wanted:
        return [*table], note
    place = COLUMNS.index("BUS") + 1
    column = [THRESHOLD, *map(_threshold, shown)]
    return [(*row[:place], cell, *row[place:]) for row, cell in zip(table, column, strict=True)], note


def _threshold(one: ThresholdResult) -> str:
    if one.threshold is None:
        return ""
    limit = _show(one.threshold.min_bus_bandwidth_bytes_per_second, BYTES_PER_SECOND, "B/s")
    return limit if one.is_met else f"{MISSED}{limit}"


def _row(one: ThresholdResult, report: Report) -> tuple[str, ...]:
    head = (one.collective, one.dtype or "any", _show(one.size_bytes, BYTES, "B"))
    return (*head, *(_numbers(one.measured, report) if one.measured else ("", "", "not measured", "", "")))


def _numbers(one: Measurement, report: Report) -> tuple[str, ...]:
    return (
        _show(one.seconds, SECONDS, "us", at_least=1e-6),
        _show(one.alg_bytes_per_second, BYTES_PER_SECOND, "B/s"),
        _show(one.bus_bandwidth_bytes_per_second, BYTES_PER_SECOND, "B/s"),
        str(one.wrong_elements),
        _slowest(one, report),
    )


def _slowest(one: Measurement, report: Report) -> str:
    if one.slowdown < NOTABLE:
        return ""
    index = one.slowest_rank // report.ranks_per_node if report.ranks_per_node else 0
    where = f" on {report.node_names[index]}" if 0 <= index < len(report.node_names) else ""
    return f"{one.slowest_rank}{where}, {one.slowdown:.1f}x the median"


def _show(amount: float, units: Sequence[tuple[float, str]], smallest: str, *, at_least: float = 1.0) -> str:
    """Three digits, in the largest unit that leaves at least one before the decimal point."""
    size, unit = next(((size, unit) for size, unit in units if amount >= size), (at_least, smallest))
    number = amount / size
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}".replace(".00 ", " ")
