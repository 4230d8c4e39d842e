"""Pieces of PromQL that the dashboards share."""

MANY = 'namespace=~"$namespace", series=~"$series"'
SINGLE = 'namespace="$namespace", series="$series"'
POINTS = f'{MANY}, collective=~"$collective", dtype=~"$dtype", size_bytes=~"$size_bytes"'
OWN = 'instance=~"$instance"'
PER_SERIES = "namespace, series"
PER_POINT = "namespace, series, collective, dtype, size_bytes, nodes"

RATE = "$__rate_interval"
NIGHT = "1d"  # the step of panels with one value per day
NO_RUN, MISSED = -1, 6  # in addition to the codes of disttest:verdict:code


def of_night(selector: str) -> str:
    """A gauge's last value of the day that starts at the step.

    Without the offset, 00:00 would show the day before, and today would be missing.
    """
    return f"last_over_time({selector}[1d] offset -1d)"


def in_night(counter: str) -> str:
    """The increase of a counter in the day that starts at the step."""
    return f"increase({counter}[1d] offset -1d)"


def in_night_or_born(counter: str) -> str:
    """The same for a counter whose first value is also its first increase."""
    return f"(({of_night(counter)} unless last_over_time({counter}[1d])) or {in_night(counter)})"


def ran(scope: str) -> str:
    """The series with a run that finished in the day that starts at the step."""
    return f"{of_night(f'disttest_last_completion_timestamp_seconds{{{scope}}}')} >= time()"


def if_ran(gauge: str, scope: str) -> str:
    """The value of the day, absent if no run finished: the gauge keeps the value of the last run."""
    return f"{of_night(gauge)} and on ({PER_SERIES}) ({ran(scope)})"


def verdict_of_night(scope: str) -> str:
    """The verdict of the day's last run; otherwise MISSED if a scheduled run is missing; otherwise NO_RUN."""
    verdict = if_ran(f"disttest:verdict:code{{{scope}}}", scope)
    missed = f"({of_night(f'disttest:schedule:missed{{{scope}}}')} > 0) * 0 + {MISSED}"
    known = f"{of_night(f'disttest_last_completion_timestamp_seconds{{{scope}}}')} * 0 {NO_RUN:+d}"
    parts = f"\n  or on ({PER_SERIES}) ".join((f"({verdict})", f"({missed})", f"({known})"))
    # The parts have different names, and each name would be a row.
    return f"max by ({PER_SERIES}) (\n  {parts}\n)"


def quantile(share: float, histogram: str, by: str, window: str) -> str:
    labels = f"le, {by}" if by else "le"
    grown = "rate" if window == RATE else "increase"
    return f"histogram_quantile({share}, sum by ({labels}) ({grown}({histogram}[{window}])))"


def rate_by(counter: str, by: str) -> str:
    """The rate of one of the operator's own counters."""
    return f"sum by ({by}) (rate({counter}{{{OWN}}}[{RATE}]))"
