"""One picture of a whole dashboard, its panels where Grafana would lay them."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tools.dashboards.boards.board import COLUMNS, Board, to_json
from tools.dashboards.boards.queries import Chosen, of_item
from tools.dashboards.pictures import charts, number_tables
from tools.dashboards.prometheus import SeriesLine, ask

Json = dict[str, Any]
COLUMN_INCHES, ROW_INCHES, DOTS_PER_INCH = 0.78, 0.4, 80
NOTE = "A plot of what the queries of this dashboard answer, not a picture of Grafana"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """Address, variables and end of the queries of a picture."""

    address: str
    chosen: Chosen
    end: float

    @property
    def start(self) -> float:
        return self.end - self.chosen.range_seconds


def draw(board: Board, context: QueryContext, file: Path) -> None:
    document = json.loads(to_json(board))
    panels = document["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) + 2
    figure = Figure(figsize=(COLUMNS * COLUMN_INCHES, rows * ROW_INCHES), facecolor="white")
    FigureCanvasAgg(figure)
    days = " to ".join(f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%d}" for at in (context.start, context.end))
    figure.text(0.01, 1 - 1 / rows, f"{board.title}, {days} UTC", fontsize=15, weight="bold", va="center")
    figure.text(0.99, 1 - 1 / rows, NOTE, fontsize=10, style="italic", va="center", ha="right")
    items = iter(board.items)
    for panel in panels:
        if panel["type"] == "row":
            top = 1 - (panel["gridPos"]["y"] + 2.6) / rows
            figure.text(0.01, top, panel["title"], fontsize=12, weight="bold", color="#555555")
            continue
        answers = [
            list(ask(context.address, query, context.start, context.end))
            for query in of_item(board, next(items), context.chosen)
        ]
        _panel(figure, panel, answers, context, rows)
    figure.savefig(file, dpi=DOTS_PER_INCH, metadata={"Software": None})


def _panel(figure: Figure, panel: Json, answers: list[list[SeriesLine]], context: QueryContext, rows: int) -> None:
    place, title = panel["gridPos"], panel["title"]
    if panel.get("repeat"):
        title, answers = _first_of(panel, answers)
    answers = [sorted(answer, key=lambda line: line.name) for answer in answers]
    left, right, below, above = _margins(panel["type"], answers)
    x, wide = place["x"] / COLUMNS + left, place["w"] / COLUMNS - left - right
    high = (place["h"] - below - above) / rows
    y = 1 - (place["y"] + 2 + place["h"] - below) / rows
    axes = figure.add_axes((x, y, wide, high))
    axes.set_title(title, fontsize=10, loc="left", pad=4)
    axes.spines[["top", "right"]].set_visible(False)
    _content(axes, panel, answers, context)


def _content(axes: Axes, panel: Json, answers: list[list[SeriesLine]], context: QueryContext) -> None:
    kind, field = panel["type"], panel.get("fieldConfig", {}).get("defaults", {})
    first = answers[0] if answers else []
    if kind == "text":
        number_tables.words(axes, panel, {"namespace": context.chosen.namespace, "series": context.chosen.series})
    elif kind == "stat":
        number_tables.number(axes, field, first, context.end)
    elif kind == "table":
        number_tables.table(axes, panel, answers, context.end, most_rows=max(3, int(panel["gridPos"]["h"] * 1.35) - 2))
    elif any(answers):
        _picture(axes, panel, answers, context)
    else:
        axes.axis("off")
        axes.text(0.5, 0.5, "no data", ha="center", va="center", fontsize=9, color="#777777")


def _picture(axes: Axes, panel: Json, answers: list[list[SeriesLine]], context: QueryContext) -> None:
    kind, field, first = panel["type"], panel["fieldConfig"]["defaults"], answers[0]
    match kind:
        case "status-history":
            charts.grid(axes, field, first[: charts.MOST_ROWS])
        case "state-timeline":
            charts.timeline(axes, field, first[: charts.MOST_ROWS])
        case "bargauge":
            charts.ranking(axes, field, first, context.end)
        case "trend":
            charts.curve(axes, field, first)
        case _ if field["custom"].get("drawStyle") == "bars":
            charts.bars(axes, panel, first)
        case _:
            charts.lines(axes, panel, answers)
    if kind in {"status-history", "state-timeline", "timeseries"}:
        axes.set_xlim(context.start / charts.DAY - 0.01, context.end / charts.DAY + 0.01)
        if panel.get("interval") == "1d":
            axes.set_xlim(context.start / charts.DAY - 0.6, context.end / charts.DAY + 0.3)


def _first_of(panel: Json, answers: list[list[SeriesLine]]) -> tuple[str, list[list[SeriesLine]]]:
    """The panel for the first value: Grafana repeats such a panel for each value."""
    label = panel["repeat"]
    known = sorted({line.labels[label] for answer in answers for line in answer})
    value = known[0] if known else ""
    if "all_reduce" in known:
        value = "all_reduce"
    title = f"{panel['title'].replace(f'${label}', value)}   (repeated for each {label})"
    return title, [[line for line in answer if line.labels[label] == value] for answer in answers]


def _margins(kind: str, answers: list[list[SeriesLine]]) -> tuple[float, float, float, float]:
    """Left and right as a share of the width, below and above in rows."""
    if kind in {"stat", "table", "text"}:
        return 0.01, 0.01, 0.3, 1.2
    longest = max((len(line.name) for answer in answers for line in answer), default=0)
    if kind in {"status-history", "state-timeline", "bargauge"}:
        return min(0.012 + 0.0048 * longest, 0.27), 0.012, 1.9 if kind == "status-history" else 1.2, 1.2
    return 0.045, 0.012, 2.4, 1.2
