"""The alerts that nine days of the story end with: all that should fire, and no other."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.integration.tools.dashboards.conftest import LAST_MIDNIGHT
from tests.support.monitoring.prometheus import promtool
from tools.dashboards.prometheus_objects import RULES
from tools.demo.history import every
from tools.demo.story.site import Site

LENGTH = timedelta(days=9)  # medians are of a week, a day ago
STEP = timedelta(minutes=5)
MORNING = LAST_MIDNIGHT + timedelta(hours=11)
FIRING = 'count by (alertname, series, node) (ALERTS{alertstate="firing"})'
Alerts = Mapping[tuple[str, str], int]  # name, and the label that says where; how many

MISSING = "_"
NAME = re.compile(r"disttest_\w+")
RESTLESS = frozenset({"disttest_watch_start_timestamp_seconds"})  # it changes with every scrape

FLAKY = {
    ("DistTestFlakyCase", 'series="nightly-1x8"'): 1,
    ("DistTestFlakyCase", 'series="nightly-2x8"'): 1,
}
BAD_NIGHT = FLAKY | {
    ("DistTestNightRed", 'series="nightly-1x8"'): 1,
    ("DistTestNightRed", 'series="nightly-2x8"'): 1,
    ("DistTestNewlyFailingCase", 'series="nightly-1x8"'): 1,
    ("DistTestNewlyFailingCase", 'series="nightly-2x8"'): 2,  # what broke, and what was too slow
    ("DistTestBandwidthBelowThreshold", 'series="nightly-2x8"'): 1,
    ("DistTestBandwidthRegression", 'series="nightly-2x8"'): 4,
    ("DistTestCorruption", 'series="nightly-1x8"'): 1,
    ("DistTestNightMissed", 'series="nightly-4x8"'): 1,
    ("DistTestPassRatioLow", 'series="nightly-1x8"'): 1,  # two red nights of seven
    ("DistTestSuspectNode", 'node="gpu-03"'): 1,
}


@pytest.mark.parametrize(
    ("has_bad_end", "alerts"),
    [pytest.param(True, BAD_NIGHT, id="bad"), pytest.param(False, FLAKY, id="good", marks=pytest.mark.soak)],
)
def test_a_night_fires_exactly_the_alerts_that_it_should(tmp_path: Path, *, has_bad_end: bool, alerts: Alerts) -> None:
    site = Site(LAST_MIDNIGHT, has_bad_end=has_bad_end)
    site.advance(MORNING - LENGTH)
    files, order = _rule_files(tmp_path)
    times, mentioned = every(STEP, MORNING - LENGTH, MORNING), "".join(file.read_text() for file in files)
    expected = [
        {"labels": f'{{alertname="{name}", {where}}}', "value": count} for (name, where), count in alerts.items()
    ]
    document = {
        "rule_files": [str(file) for file in files],
        "evaluation_interval": "1h",
        "group_eval_order": order,
        "tests": [
            {
                "interval": "5m",
                "input_series": list(input_series(site, times, mentioned=mentioned)),
                "promql_expr_test": [{"expr": FIRING, "eval_time": "9d", "exp_samples": expected}],
            }
        ],
    }
    file = tmp_path / "story.yaml"  # rules of nights are in nights.yaml
    file.write_text(yaml.safe_dump(document))
    promtool("test", "rules", file)


def _rule_files(directory: Path) -> tuple[list[Path], list[str]]:
    """The shipped rules at the test's interval: a median of a week every five minutes for nine days takes long.

    At that interval a record is stale before it is made again, so recording rules have to come first.
    """
    made: list[Path] = []
    records: list[str] = []
    alerts: list[str] = []
    for source in sorted(RULES.glob("*.yaml")):
        document = yaml.safe_load(source.read_text())
        for group in document.get("groups", ()):
            group.pop("interval", None)
            (records if "record" in group["rules"][0] else alerts).append(group["name"])
        if "groups" in document:
            made.append(directory / source.name)
            made[-1].write_text(yaml.safe_dump(document))
    return made, [*records, *alerts]


def input_series(site: Site, times: Iterable[datetime], *, mentioned: str) -> Iterator[dict[str, str]]:
    """promtool's input series of all metrics that `mentioned` names; equal values are written once."""
    wanted = frozenset(NAME.findall(mentioned)) - RESTLESS
    found: dict[str, list[tuple[str, int]]] = {}
    state, lines, length = None, [], 0
    for now in times:
        site.advance(now)
        if state != (site.changes, site.is_down, now.hour):  # schedules change with the hour
            state, lines = (site.changes, site.is_down, now.hour), list(_lines(site, wanted))
        for name, value in lines:
            _append(found.setdefault(name, []), value, length)
        length += 1
    for name, runs in found.items():
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
