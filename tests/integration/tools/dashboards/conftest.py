"""Sixty nights in a real Prometheus, with what the recording rules make of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.monitoring.simulation import history
from tests.support.monitoring.simulation.history import Nights, every
from tests.support.monitoring.simulation.site import Site

LAST_MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
STEP = timedelta(hours=4)
CLOSE = timedelta(minutes=10)  # of the last scrapes: what the operator does is asked for by the hour


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """The last night was a bad one; it was over by six, and rules may be four hours behind."""
    site = Site(LAST_MIDNIGHT, has_bad_end=True)
    end = LAST_MIDNIGHT + timedelta(hours=14)
    times = [*every(STEP, site.begin + timedelta(hours=2), end - STEP), *every(CLOSE, end - STEP + CLOSE, end)]
    directory = tmp_path_factory.mktemp("nights")
    with history.served(directory, site, times, step=STEP) as served:
        yield served
