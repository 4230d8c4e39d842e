"""Writes the scrapes of the story as OpenMetrics, and makes the storage of a Prometheus from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tools.dashboards.prometheus_objects import RULES
from tools.demo import local_services
from tools.demo.local_services import promtool
from tools.demo.story.site import PREFIX, Site

BLOCKS = "--max-block-duration=720h"  # else one pass over the whole text for every two hours

Rule = Mapping[str, Any]
Scrape = tuple[datetime, list[str]]  # its time and its lines


def scrapes(site: Site, times: Iterable[datetime]) -> Iterator[Scrape]:
    """The sample lines of each scrape; none during the outage."""
    for now in times:
        site.advance(now)
        if not site.is_down:
            yield now, [line for line in site.text().split("\n") if line.startswith((PREFIX, "process_"))]


def every(step: timedelta, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The times from `begin` to `end`, both included."""
    while begin <= end:
        yield begin
        begin += step


def write(path: Path, scraped: Iterable[Scrape]) -> None:
    with path.open("w") as file:
        for now, lines in scraped:
            stamp = f" {now.timestamp():.0f}\n"
            file.writelines(line + stamp for line in lines)
        file.write("# EOF\n")


def store(directory: Path, scraped: Iterable[Scrape], times: Sequence[datetime], *, step: timedelta) -> Path:
    """The storage of a Prometheus with these scrapes and the recording rules' results for every `step` of `times`."""
    text, storage, rules = directory / "nights.om", directory / "data", directory / "stage.yaml"
    write(text, scraped)
    promtool("tsdb", "create-blocks-from", BLOCKS, "openmetrics", str(text), str(storage))
    text.unlink()
    for stage in stages(_recording_rules()):
        rules.write_text(yaml.safe_dump({"groups": [{"name": "stage", "rules": stage}]}))
        with local_services.prometheus(directory, {}, *flags(step), storage=storage) as service:
            backfill(service.url, rules, storage, times[0], times[-1], step)
    return storage


def flags(step: timedelta) -> tuple[str, str]:
    """Flags of a Prometheus whose scrapes are `step` apart and that keeps them for a year."""
    return f"--query.lookback-delta={step.total_seconds() + 300:.0f}s", "--storage.tsdb.retention.time=1y"


def stages(rules: Sequence[Rule]) -> list[list[Rule]]:
    """Rules in an order for promtool, whose backfill does not see its own records: readers come a stage later."""
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


def backfill(url: str, rules: Path, storage: Path, begin: datetime, end: datetime, step: timedelta) -> None:
    """Write the records of the rules between `begin` and `end`; a Prometheus must be restarted to read them."""
    times = (f"--start={begin.timestamp():.0f}", f"--end={end.timestamp():.0f}")
    interval = f"--eval-interval={step.total_seconds():.0f}s"
    server, output = f"--url={url}", f"--output-dir={storage}"
    promtool("tsdb", "create-blocks-from", BLOCKS, "rules", server, *times, interval, output, str(rules))
