"""All queries of all dashboards with values for their variables, for Prometheus or promtool."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grafana_foundation_sdk.models import prometheus

from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import Board, Item, QueryNeed

DAY = 86400
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY}
VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The values of the variables. `series` has no default, because the series dashboard shows one series."""

    namespace: str
    series: str
    range_seconds: int = 60 * DAY
    points: int = 1000
    scrape_seconds: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query; an instant one is evaluated at the end of the range."""

    dashboard: str
    panel: str
    ref: str
    expr: str
    name: str
    instant: bool
    step_seconds: int
    need: QueryNeed


def queries(chosen: Chosen) -> Iterator[Query]:
    return (query for board in DASHBOARDS for item in board.items for query in of_item(board, item, chosen))


def of_item(board: Board, item: Item, chosen: Chosen) -> Iterator[Query]:
    step = step_seconds(item.panel.interval, chosen)
    values = variables(board, chosen, step)
    for target, need in zip(item.panel.targets or [], item.needs, strict=True):
        if not isinstance(target, prometheus.Dataquery):
            raise TypeError(f"{board.uid}: {item.panel.title!r} has a query that is not for Prometheus")
        yield Query(
            dashboard=board.uid,
            panel=item.panel.title or "",
            ref=target.ref_id,
            expr=filled(target.expr, values),
            name=target.legend_format or "",
            instant=bool(target.instant),
            step_seconds=step,
            need=need,
        )


def step_seconds(least: str | None, chosen: Chosen) -> int:
    """Grafana's step: the range divided by the panel's width, but at least the panel's interval."""
    wanted = chosen.range_seconds // chosen.points
    floor = int(least[:-1]) * SECONDS[least[-1]] if least else chosen.scrape_seconds
    return max(wanted, floor)


def variables(board: Board, chosen: Chosen, step: int) -> dict[str, str]:
    """The values by name. Variables with several values get all of them."""
    rate_seconds = max(step + chosen.scrape_seconds, 4 * chosen.scrape_seconds)
    values = {"__rate_interval": f"{rate_seconds}s", "__range": f"{chosen.range_seconds}s", "__interval": f"{step}s"}
    single = {"namespace": chosen.namespace, "series": chosen.series}
    for variable in board.variables:
        values[variable.name] = variable.all_value or single.get(variable.name, "")
    return values


def filled(expr: str, values: dict[str, str]) -> str:
    return VARIABLE.sub(lambda found: values[found[1]], expr)
