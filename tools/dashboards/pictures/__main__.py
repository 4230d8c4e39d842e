"""Plot each dashboard with data from Prometheus as a picture for the documentation, with the layout of Grafana."""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import COLUMNS, Board, to_json
from tools.dashboards.boards.queries import DAY, Chosen, of_item
from tools.dashboards.pictures import charts, number_tables
from tools.dashboards.prometheus import PrometheusError, SeriesLine, ask

Json = dict[str, Any]
COLUMN_INCHES, ROW_INCHES, DOTS_PER_INCH = 0.78, 0.4, 80
NOTE = "A plot of the query results of this dashboard, not a screenshot of Grafana"


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
        number_tables.no_data(axes)


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
        axes.set_xlim(context.start / DAY - 0.01, context.end / DAY + 0.01)
        if panel.get("interval") == "1d":
            axes.set_xlim(context.start / DAY - 0.6, context.end / DAY + 0.3)


def _first_of(panel: Json, answers: list[list[SeriesLine]]) -> tuple[str, list[list[SeriesLine]]]:
    """The panel for the first value: Grafana repeats such a panel for each value."""
    label = panel["repeat"]
    known = sorted({line.labels[label] for answer in answers for line in answer})
    value = "all_reduce" if "all_reduce" in known else next(iter(known), "")
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards.pictures", description=__doc__)
    parser.add_argument(
        "--prometheus", required=True, metavar="ADDRESS", help="Address of Prometheus, as http://HOST:PORT"
    )
    parser.add_argument("--namespace", required=True, help="Namespace of the series for the series dashboard")
    parser.add_argument("--series", required=True, help="Series for the series dashboard")
    parser.add_argument("--days", type=int, default=60, help="Number of days to show (default 60)")
    parser.add_argument("--end", type=datetime.fromisoformat, help="End time, as 2026-01-31T12:00+00:00 (default: now)")
    parser.add_argument(
        "--scrape-seconds", type=int, default=30, help="Scrape interval of Prometheus in seconds (default 30)"
    )
    parser.add_argument("--to", type=Path, default=Path("docs/images"), help="Output folder (default docs/images)")
    options = parser.parse_args()
    end = options.end.timestamp() if options.end else time.time()
    options.to.mkdir(parents=True, exist_ok=True)
    for board in DASHBOARDS:
        days = options.days if board.since.endswith("d") else 1
        chosen = Chosen(
            namespace=options.namespace,
            series=options.series,
            range_seconds=days * DAY,
            scrape_seconds=options.scrape_seconds,
        )
        file = options.to / f"{board.uid}.png"
        try:
            draw(board, QueryContext(address=options.prometheus, chosen=chosen, end=end), file)
        except PrometheusError as error:
            print(f"render: {error}", file=sys.stderr)
            return 1
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
