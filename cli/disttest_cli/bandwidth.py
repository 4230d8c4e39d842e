"""What a run has measured, as rows of text: for each collective and type the largest size."""

from collections.abc import Iterable, Sequence

from disttest_contract.measurement import Measurement
from disttest_contract.report import Report

COLUMNS = ("BANDWIDTH", "TYPE", "SIZE", "TIME", "ALGORITHM", "BUS", "WRONG", "SLOWEST RANK")
MAX_ROWS = 40
NOTABLE = 1.1  # times the median: how slow the slowest rank must be to be shown

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
BYTES_PER_SECOND = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def rows(report: Report) -> tuple[list[Sequence[str]], str]:
    """The table with its head, and a note on what it leaves out. Both empty where nothing was measured."""
    measured = [one for suite in report.suites for case in suite.cases for one in case.measurements]
    chosen = _largest(measured)
    shown = chosen[:MAX_ROWS]
    if not shown:
        return [], ""
    left_out = len(measured) - len(shown)
    note = f"and {left_out} more measurements, most of smaller sizes: the report has them all" if left_out else ""
    return [COLUMNS, *(_row(one, report) for one in shown)], note


def _largest(measured: Iterable[Measurement]) -> list[Measurement]:
    found: dict[tuple[str, str], Measurement] = {}
    for one in measured:
        known = found.setdefault((one.collective, one.dtype), one)
        if one.size_bytes > known.size_bytes:
            found[one.collective, one.dtype] = one
    return list(found.values())


def _row(one: Measurement, report: Report) -> tuple[str, ...]:
    return (
        one.collective,
        one.dtype,
        _show(one.size_bytes, BYTES, "B"),
        _show(one.seconds, SECONDS, "us", at_least=1e-6),
        _show(one.alg_bytes_per_second, BYTES_PER_SECOND, "B/s"),
        _show(one.bus_bytes_per_second, BYTES_PER_SECOND, "B/s"),
        str(one.wrong_elements),
        _slowest(one, report),
    )


def _slowest(one: Measurement, report: Report) -> str:
    if one.slowdown < NOTABLE:
        return ""
    index = one.slowest_rank // report.ranks_per_node if report.ranks_per_node else 0
    where = f" on {report.node_names[index]}" if index < len(report.node_names) else ""
    return f"{one.slowest_rank}{where}, {one.slowdown:.1f}x the median"


def _show(amount: float, units: Sequence[tuple[float, str]], smallest: str, *, at_least: float = 1.0) -> str:
    """Three digits, in the largest unit that leaves one before the point."""
    size, unit = next(((size, unit) for size, unit in units if amount >= size), (at_least, smallest))
    number = amount / size
    return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}".replace(".00 ", " ")
