"""The story as promtool's unit tests of rules want it: one line a series, equal values written once."""

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from tests.support.monitoring.simulation.site import Site

MISSING = "_"
NAME = re.compile(r"disttest_\w+")
RESTLESS = frozenset({"disttest_watch_begun_timestamp_seconds"})  # it moves with every scrape, which is what rules ask


def of(site: Site, times: Iterable[datetime], *, mentioned: str) -> Iterator[dict[str, str]]:
    """Of all series that the rules in `mentioned` read; evenly spaced times. What is absent is missing there."""
    wanted = frozenset(NAME.findall(mentioned)) - RESTLESS
    told: dict[str, list[tuple[str, int]]] = {}
    state, lines, length = None, [], 0
    for now in times:
        site.advance(now)
        if state != (site.changes, site.is_down, now.hour):  # schedules move by themselves
            state, lines = (site.changes, site.is_down, now.hour), list(_lines(site, wanted))
        for name, value in lines:
            _append(told.setdefault(name, []), value, length)
        length += 1
    for name, runs in told.items():
        gap = length - sum(count for _, count in runs)
        everything = [*runs, (MISSING, gap)] if gap else runs
        yield {"series": name, "values": " ".join(_spelt(value, count) for value, count in everything)}


def _lines(site: Site, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    if site.is_down:
        return
    for line in site.text().split("\n"):
        name, _, value = line.rpartition(" ")
        if name.partition("{")[0] in wanted:
            yield name, value


def _append(runs: list[tuple[str, int]], value: str, number: int) -> None:
    """Runs of equal values, each with its length; a gap before `number` is a run of missing ones."""
    if gap := number - sum(length for _, length in runs):
        runs.append((MISSING, gap))
    if runs and runs[-1][0] == value:
        runs[-1] = (value, runs[-1][1] + 1)
    else:
        runs.append((value, 1))


def _spelt(value: str, count: int) -> str:
    """A value is written once more than its number of repeats says, a missing one as often."""
    return f"{MISSING}x{count}" if value == MISSING else f"{value}x{count - 1}"
