"""The story as a Prometheus would have scraped it: OpenMetrics with times, and blocks made of that."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.support.monitoring import prometheus
from tests.support.monitoring.prometheus import Prometheus, promtool
from tests.support.monitoring.simulation.site import PREFIX, Site
from tests.support.paths import ROOT

RULES = ROOT / "manifests" / "monitoring" / "rules"
BLOCKS = "--max-block-duration=720h"  # else one pass over the whole text for every two hours

Rule = Mapping[str, Any]
Scrape = tuple[datetime, list[str]]  # when, and its lines


def scrapes(site: Site, times: Iterable[datetime]) -> Iterator[Scrape]:
    """Sample lines of each scrape; none while nobody answers."""
    for now in times:
        site.advance(now)
        if not site.is_down:
            yield now, [line for line in site.text().split("\n") if line.startswith((PREFIX, "process_"))]


def every(step: timedelta, begin: datetime, end: datetime) -> Iterator[datetime]:
    """From `begin` to `end`, both included."""
    while begin <= end:
        yield begin
        begin += step


def write(path: Path, told: Iterable[Scrape]) -> None:
    """OpenMetrics."""
    with path.open("w") as file:
        for now, lines in told:
            stamp = f" {now.timestamp():.0f}\n"
            file.writelines(line + stamp for line in lines)
        file.write("# EOF\n")


def make_blocks(text: Path, storage: Path) -> None:
    """promtool writes what a Prometheus that is started on `storage` then holds."""
    promtool("tsdb", "create-blocks-from", BLOCKS, "openmetrics", str(text), str(storage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """A Prometheus that holds the story from `begin` to `end`."""

    prometheus: Prometheus
    begin: datetime
    end: datetime


@contextlib.contextmanager
def served(directory: Path, site: Site, times: Sequence[datetime], *, step: timedelta) -> Iterator[Nights]:
    """A value holds from one scrape to the next."""
    storage = store(directory, scrapes(site, times), times, step=step)
    with prometheus.running(directory, {}, *flags(step), storage=storage) as one:
        yield Nights(prometheus=one, begin=times[0], end=times[-1])


def store(directory: Path, told: Iterable[Scrape], times: Sequence[datetime], *, step: timedelta) -> Path:
    """What a Prometheus then holds, with what its recording rules make of it every `step` from the first time on."""
    text, storage, rules = directory / "nights.om", directory / "data", directory / "stage.yaml"
    write(text, told)
    make_blocks(text, storage)
    text.unlink()
    for stage in stages(_recording_rules()):
        rules.write_text(yaml.safe_dump({"groups": [{"name": "stage", "rules": stage}]}))
        with prometheus.running(directory, {}, *flags(step), storage=storage) as one:
            backfill(one.address, rules, storage, times[0], times[-1], step)
    return storage


def flags(step: timedelta) -> tuple[str, str]:
    """Of a Prometheus with scrapes so far apart, that is not to forget."""
    return f"--query.lookback-delta={step.total_seconds() + 300:.0f}s", "--storage.tsdb.retention.time=1y"


def stages(rules: Sequence[Rule]) -> list[list[Rule]]:
    """promtool's backfill does not see what it has just recorded: what reads other records comes a stage later."""
    left, made = list(rules), []
    while left:
        names = {str(rule["record"]) for rule in left}
        ready = [rule for rule in left if not any(name in str(rule["expr"]) for name in names)]
        made.append(ready)
        left = [rule for rule in left if rule not in ready]
    return made


def _recording_rules() -> list[Rule]:
    groups = (group for file in RULES.glob("*.yaml") for group in yaml.safe_load(file.read_text()).get("groups", ()))
    return [rule for group in groups for rule in group["rules"] if "record" in rule]


def backfill(address: str, rules: Path, storage: Path, begin: datetime, end: datetime, step: timedelta) -> None:
    """What the recording rules would have recorded, had they been there; a Prometheus started anew on it has it."""
    times = (f"--start={begin.timestamp():.0f}", f"--end={end.timestamp():.0f}")
    interval = f"--eval-interval={step.total_seconds():.0f}s"
    url, output = f"--url=http://{address}", f"--output-dir={storage}"
    promtool("tsdb", "create-blocks-from", BLOCKS, "rules", url, *times, interval, output, str(rules))
