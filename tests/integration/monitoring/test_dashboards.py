"""Every query of every dashboard, asked of a real Prometheus that has seen sixty nights."""

import math
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

import pytest

from monitoring.dashboards import DASHBOARDS
from monitoring.dashboards.queries import Chosen, Query, queries
from tests.support.prometheus import Sample
from tests.support.simulation.history import Nights
from tests.support.simulation.site import NAMESPACE
from tests.support.simulation.story import NIGHTS

DAY_SECONDS = 86400
CHOSEN = Chosen(namespace=NAMESPACE, series="nightly-2x8", scrape_seconds=4 * 3600)


def answer(nights: Nights, query: Query) -> list[Sample]:
    if query.instant:
        return nights.prometheus.ask(query.expr, at=nights.end)
    begin = nights.end - timedelta(seconds=CHOSEN.range_seconds)
    return nights.prometheus.ask_range(query.expr, begin, nights.end, query.step_seconds)


def numbers(samples: list[Sample]) -> Iterator[float]:
    for sample in samples:
        for _, number in sample.get("values") or [sample["value"]]:
            yield float(number)


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: str(board.uid))
def test_every_panel_has_what_it_needs(nights: Nights, board: object) -> None:
    wrong = []
    for query in queries(CHOSEN):
        if query.dashboard != getattr(board, "uid", ""):
            continue
        samples = answer(nights, query)
        found = list(islice(numbers(samples), 100_000))
        where = f"{query.panel!r} {query.ref}: {query.expr}"
        if len(samples) < query.need.at_least and not (query.need.or_empty and not samples):
            wrong.append(f"{where}: {len(samples)} series, {query.need.at_least} are needed")
        elif any(math.isinf(number) for number in found):
            wrong.append(f"{where}: infinite")
        elif found and all(math.isnan(number) for number in found):
            wrong.append(f"{where}: not a number")
    assert not wrong, "\n".join(wrong)


def test_the_nights_of_the_story_are_in_the_verdict_codes(nights: Nights) -> None:
    """One cell a night, as the status history asks for them."""
    begin = nights.end - timedelta(days=NIGHTS - 1)
    samples = nights.prometheus.ask_range("disttest:verdict:code", begin, nights.end, DAY_SECONDS)
    cells = {sample["metric"]["series"]: dict(sample["values"]) for sample in samples}

    def code(series: str, night: int) -> str | None:
        return cells[series].get(begin.timestamp() + night * DAY_SECONDS)

    assert [code("nightly-4x8", night) for night in (17, 18, 21, 22)] == ["0", "2", "2", "0"], "the regression"
    assert code("nightly-4x8", 30) == "3", "the hang"
    assert code("nightly-4x8", 34) == "4", "the bad node, twice"
    assert code("nightly-1x8", 44) is None, "the outage"
    assert code("nightly-2x8", 59) == "2", "the bad end"
