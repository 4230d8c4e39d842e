"""A dashboard as data, and its JSON in the classic model, which Grafana 10 to 13 load."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

TAG = "disttest"
COLUMNS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryNeed:
    """The minimum number of series that a query returns with a history. `or_empty`: why it can be none."""

    at_least: int = 1
    or_empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A panel, its size in grid units, and the need of each of its queries."""

    panel: model.Panel
    width: int
    height: int
    needs: tuple[QueryNeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSection:
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard; links and bookmarks contain its `uid`."""

    uid: str
    title: str
    description: str
    since: str
    refresh: str
    variables: tuple[model.VariableModel, ...]
    sections: tuple[DashboardSection, ...]

    @property
    def items(self) -> Iterator[Item]:
        return (item for section in self.sections for item in section.items)


def place(board: Board) -> list[model.Panel | model.RowPanel]:
    """Lay out the panels: each section starts a line, and an item that does not fit starts the next one."""
    placed: list[model.Panel | model.RowPanel] = []
    y = 0
    for section in board.sections:
        where = model.GridPos(h=1, w=COLUMNS, x=0, y=y)
        placed.append(model.RowPanel(title=section.title, grid_pos=where, id_val=len(placed) + 1, panels=[]))
        x, y, line = 0, y + 1, 0
        for item in section.items:
            if x + item.width > COLUMNS:
                x, y, line = 0, y + line, 0
            panel = copy.copy(item.panel)
            panel.id_val = len(placed) + 1
            panel.grid_pos = model.GridPos(h=item.height, w=item.width, x=x, y=y)
            placed.append(panel)
            x, line = x + item.width, max(line, item.height)
        y += line
    return placed


def to_json(board: Board) -> str:
    made = (
        build.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .timezone("utc")
        .readonly()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time(board.since, "now")
        .refresh(board.refresh)
        .link(_links())
        .build()
    )
    made.templating.list_val = list(board.variables)
    made.panels = place(board)
    return json.dumps(made, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _links() -> build.DashboardLink:
    """Links to the other dashboards that keep variables and time range."""
    links = build.DashboardLink("DistTest").type(model.DashboardLinkType.DASHBOARDS).icon("external link")
    return links.tags([TAG]).tooltip("The other dashboards of DistTest").include_vars(True).keep_time(True)
