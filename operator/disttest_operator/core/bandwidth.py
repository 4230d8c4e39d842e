"""What a report has measured, beside the thresholds of the spec.

A report is written next to the code under test, which can forge it: thresholds are never taken from there, and of its
measurements only those count that the suite `collectives` could have made.
"""

from collections.abc import Sequence
from typing import Any

from disttest_contract import limits, thresholds
from disttest_contract.measurement import Measurement
from disttest_contract.report import Report
from disttest_contract.thresholds import Standing, Threshold


def rows(report: Report, wanted: Sequence[Threshold]) -> list[dict[str, Any]]:
    """status.bandwidth: first what has a threshold, the worst on top."""
    return [_row(one) for one in thresholds.standings(_sound(report), wanted)[: limits.BANDWIDTHS]]


def missed(report: Report, wanted: Sequence[Threshold]) -> str:
    """A sentence if a report that passes does not meet the thresholds by its own measurements; else nothing.

    Such a report was made by a runner that does not know thresholds, or was forged. A quarantine was checked before.
    """
    if not wanted:
        return ""
    excused = {case.id for _, case in report.excused}
    judged = [
        one for suite in report.suites for case in suite.cases if not case.is_excused for one in case.measurements
    ]
    silent = [
        f"{one.name}: nothing was measured"
        for one in thresholds.unmeasured(_sound(report), wanted)
        if one.case_id not in excused
    ]
    found = [*thresholds.shortfalls(judged, wanted), *silent]
    if not found:
        return ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"the cases passed, but not the thresholds: {found[0]}{more}. The runner did not judge them: "
        "is the operator's --runner-image older than the operator?"
    )


def _sound(report: Report) -> list[Measurement]:
    measured = (one for suite in report.suites for case in suite.cases for one in case.measurements)
    return [one for one in measured if thresholds.is_sound(one)]


def _row(one: Standing) -> dict[str, Any]:
    row = {
        "collective": one.collective,
        "dtype": one.dtype,
        "sizeBytes": one.size_bytes,
        "busBytesPerSecond": one.measured.bus_bytes_per_second if one.measured else None,
        "threshold": one.threshold.min_bus_bandwidth_bytes_per_second if one.threshold else None,
        "ok": one.is_met,
    }
    return {key: value for key, value in row.items() if value not in ("", None)}
