"""Every query of every dashboard, asked of a real Prometheus that has seen sixty nights."""

import math
from datetime import timedelta

import pytest

from tests.integration.tools.dashboards.conftest import Nights
from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import Board
from tools.dashboards.boards.queries import Chosen, queries
from tools.dashboards.prometheus import ask
from tools.demo.story.site import NAMESPACE
from tools.demo.story.story import NIGHTS

DAY_SECONDS = 86400
CHOSEN = Chosen(namespace=NAMESPACE, series="nightly-2x8", scrape_seconds=4 * 3600)


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.uid)
def test_every_panel_has_what_it_needs(nights: Nights, board: Board) -> None:
    end, wrong = nights.end.timestamp(), []
    mine = [query for query in queries(CHOSEN) if query.dashboard == board.uid]
    for query in mine:
        found = ask(nights.prometheus.url, query, end - CHOSEN.range_seconds, end)
        numbers = [number for line in found for _, number in line.points]
        where = f"{query.panel!r} {query.ref}: {query.expr}"
        if len(found) < query.need.at_least and not (query.need.or_empty and not found):
            wrong.append(f"{where}: {len(found)} series, {query.need.at_least} are needed")
        elif any(map(math.isinf, numbers)):
            wrong.append(f"{where}: infinite")
        elif numbers and all(map(math.isnan, numbers)):
            wrong.append(f"{where}: not a number")
    assert mine
    assert not wrong, "\n".join(wrong)


def test_the_nights_of_the_story_are_in_the_verdict_codes(nights: Nights) -> None:
    """One cell a night, as the status history asks for them."""
    begin = nights.end - timedelta(days=NIGHTS - 1)
    samples = nights.prometheus.ask_range(
        "disttest:verdict:code", begin.timestamp(), nights.end.timestamp(), DAY_SECONDS
    )
    cells = {sample["metric"]["series"]: dict(sample["values"]) for sample in samples}

    def code(series: str, night: int) -> str | None:
        return cells[series].get(begin.timestamp() + night * DAY_SECONDS)

    assert [code("nightly-4x8", night) for night in (17, 18, 21, 22)] == ["0", "2", "2", "0"], "the regression"
    assert code("nightly-4x8", 30) == "3", "the hang"
    assert code("nightly-4x8", 34) == "4", "the bad node, twice"
    assert code("nightly-1x8", 44) is None, "the outage"
    assert code("nightly-2x8", 59) == "2", "the bad end"
