"""Sixty nights in a real Prometheus, with the results of the recording rules."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.monitoring import prometheus
from tools.dashboards.prometheus import Prometheus
from tools.demo import history
from tools.demo.history import every
from tools.demo.story.site import Site

LAST_MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
STEP = timedelta(hours=4)
CLOSE = timedelta(minutes=10)  # between the last scrapes: the operator's own panels ask for hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """A Prometheus that holds the story until `end`."""

    prometheus: Prometheus
    end: datetime


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """The last night was a bad one; it was over by six, and rules may be four hours behind."""
    prometheus.require("prometheus")
    prometheus.require("promtool")
    site = Site(LAST_MIDNIGHT, has_bad_end=True)
    end = LAST_MIDNIGHT + timedelta(hours=14)
    times = [*every(STEP, site.begin + timedelta(hours=2), end - STEP), *every(CLOSE, end - STEP + CLOSE, end)]
    directory = tmp_path_factory.mktemp("nights")
    storage = history.store(directory, history.scrapes(site, times), times, step=STEP)
    with prometheus.running(directory, {}, *history.flags(STEP), storage=storage) as one:
        yield Nights(prometheus=one, end=end)
