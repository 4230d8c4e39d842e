"""Plots of lines, stacked bars, rankings and curves."""

import itertools
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from matplotlib import dates
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.typing import ColorType

from tools.dashboards.boards import styles
from tools.dashboards.boards.queries import DAY
from tools.dashboards.boards.styles import BLUE
from tools.dashboards.pictures import number_tables
from tools.dashboards.prometheus import SeriesLine

Json = dict[str, Any]
MOST_ROWS, MOST_LINES = 24, 4


def grid(axes: Axes, field: Json, lines: list[SeriesLine]) -> None:
    """One cell for each day, centered at midnight as in Grafana, with the first character of its text."""
    size = 7 if max((len(line.points) for line in lines), default=0) > 45 else 8
    for row, line in enumerate(lines):
        for at, value in line.points:
            x, text = at / DAY, number_tables.value_text(field, value, 0)
            box = Rectangle(
                (x - 0.45, row - 0.42), 0.9, 0.84, color=number_tables.value_colour(field, value), linewidth=0
            )
            axes.add_patch(box)
            axes.text(
                x, row, text[0], ha="center", va="center", fontsize=size, color=ink(box.get_facecolor()), weight="bold"
            )
    _rows(axes, lines)
    known = {value for line in lines for _, value in line.points}
    handles = [
        Patch(color=found[1], label=found[0])
        for value in sorted(known)
        if (found := number_tables.words_of(field, value))
    ]
    legend(axes, handles, [str(handle.get_label()) for handle in handles])


def timeline(axes: Axes, field: Json, lines: list[SeriesLine]) -> None:
    """Draw adjacent points with the same value as one bar that contains the value."""
    gaps = [later[0] - sooner[0] for line in lines for sooner, later in itertools.pairwise(line.points)]
    step = min(gaps, default=DAY)
    for row, line in enumerate(lines):
        for start, end, value in segments(line, step):
            width = (end - start) / DAY
            fill = number_tables.value_colour(field, value) or "#888888"
            axes.broken_barh([(start / DAY, width)], (row - 0.38, 0.76), color=fill, edgecolor="white", linewidth=0.4)
            text = number_tables.value_text(field, value, 0)
            axes.text(
                start / DAY + width / 2, row, text, ha="center", va="center", fontsize=7, color="black", clip_on=True
            )
    _rows(axes, lines)


def segments(line: SeriesLine, step: float) -> list[tuple[float, float, float]]:
    made: list[tuple[float, float, float]] = []
    for at, value in line.points:
        if made and made[-1][2] == value and at - made[-1][1] < step / 2:
            made[-1] = (made[-1][0], at + step, value)
        else:
            made.append((at, at + step, value))
    return made


def _rows(axes: Axes, lines: list[SeriesLine]) -> None:
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [line.name[:60] for line in lines], fontsize=8)
    by_day(axes)


def by_day(axes: Axes) -> None:
    axes.xaxis_date(tz=UTC)
    locator = dates.AutoDateLocator(tz=UTC, minticks=5, maxticks=14)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC, show_offset=False))  # type: ignore[no-untyped-call]
    axes.tick_params(labelsize=8)


def moments(line: SeriesLine) -> list[datetime]:
    return [datetime.fromtimestamp(at, tz=UTC) for at, _ in line.points]


def ink(field: ColorType) -> str:
    red, green, blue = to_rgb(field)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.6 else "white"


def legend(axes: Axes, handles: Sequence[Artist], names: list[str]) -> None:
    """Draw the legend below the dates. Entries that do not fit are counted."""
    figure = axes.get_figure(root=True)
    if figure is None or not names:
        return
    place = axes.get_position()
    wide, high = place.width * figure.get_figwidth(), place.height * figure.get_figheight()
    columns = max(1, int(wide / (max(map(len, names)) * 0.062 + 0.45)))
    room = columns * MOST_LINES
    if len(names) > room:
        names = [*names[: room - 1], f"… {len(names) - room + 1} more"]
    axes.legend(
        handles[:room],
        names,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.26 / high),
        ncols=columns,
        fontsize=7.5,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0,
    )


def lines(axes: Axes, panel: Json, answers: list[list[SeriesLine]]) -> None:
    field = panel["fieldConfig"]["defaults"]
    overrides = panel["fieldConfig"]["overrides"]
    dashed = {one["matcher"]["options"] for one in overrides if one["matcher"]["id"] == "byFrameRefID"}
    drawn = [(target["refId"] in dashed, answer) for target, answer in zip(panel["targets"], answers, strict=True)]
    for is_dashed, answer in sorted(drawn, key=lambda one: one[0]):
        for line in answer:
            _line(axes, panel, line, dashed=is_dashed)
    for step in (field["custom"].get("thresholdsStyle") or {}) and field["thresholds"]["steps"]:
        if step["value"] is not None:
            axes.axhline(step["value"], color=step["color"], linestyle="--", linewidth=1)
    _scale(axes, field)
    by_day(axes)
    _names(axes)


def bars(axes: Axes, panel: Json, answer: list[SeriesLine]) -> None:
    """Stacked bars, almost one day wide."""
    bottoms: dict[float, float] = {}
    for line in answer:
        heights = [value for _, value in line.points]
        below = [bottoms.get(at, 0.0) for at, _ in line.points]
        days, colour = [at / DAY for at, _ in line.points], _fixed(panel, line.name)
        axes.bar(days, heights, bottom=below, width=0.8, label=line.name, color=colour)
        bottoms |= {at: bottoms.get(at, 0.0) + value for at, value in line.points}
    _scale(axes, panel["fieldConfig"]["defaults"])
    by_day(axes)
    _names(axes)


def ranking(axes: Axes, field: Json, answer: list[SeriesLine], end: float) -> None:
    rows = sorted(answer, key=lambda line: line.last)[-20:]
    axes.barh(
        range(len(rows)),
        [row.last for row in rows],
        color=[number_tables.value_colour(field, row.last) or BLUE for row in rows],
    )
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    for place, row in enumerate(rows):
        axes.text(row.last, place, f" {number_tables.value_text(field, row.last, end)}", va="center", fontsize=8)
    axes.margins(x=0.18)
    axes.set_xticks([])


def curve(axes: Axes, field: Json, answer: list[SeriesLine]) -> None:
    by_point: dict[str, list[tuple[int, float]]] = {}
    for line in answer:
        by_point.setdefault(line.labels["point"], []).append((int(line.labels["size_bytes"]), line.last))
    for point, pairs in sorted(by_point.items()):
        pairs.sort()
        axes.plot([size for size, _ in pairs], [value for _, value in pairs], marker="o", label=point, markersize=4)
    axes.set_xscale("log", base=2)
    ticks = sorted({size for pairs in by_point.values() for size, _ in pairs})
    axes.set_xticks(ticks, [styles.spoken(size) for size in ticks], fontsize=8)
    _logarithmic(axes)
    _units(axes, field)
    _names(axes)


def renamed(panel: Json, name: str) -> str:
    for change in panel.get("transformations") or []:
        if change["id"] == "renameByRegex":
            options = change["options"]
            name = re.sub(options["regex"], options["renamePattern"].replace("$", "\\"), name)
    return name


def _line(axes: Axes, panel: Json, line: SeriesLine, *, dashed: bool) -> None:
    style: Json = {"linestyle": "--", "color": "#444444"} if dashed else {"marker": "o", "markersize": 2.5}
    if len(line.points) > 200:
        style["marker"] = ""
    if not dashed and (fixed := _fixed(panel, line.name)):
        style["color"] = fixed
    heights = [value for _, value in line.points]
    name = renamed(panel, line.name)
    axes.step(moments(line), heights, where="post", linewidth=1, label=name, **style)  # type: ignore[arg-type]


def _fixed(panel: Json, name: str) -> str | None:
    colour: Json = number_tables.overrides_of(panel, name).get("color", {})
    return colour.get("fixedColor")


def _scale(axes: Axes, field: Json) -> None:
    if (field["custom"].get("scaleDistribution") or {}).get("type") == "log":
        _logarithmic(axes)
    if field.get("min") is not None or field.get("max") is not None:
        axes.set_ylim(bottom=field.get("min"), top=field.get("max"))
    _units(axes, field)


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _units(axes: Axes, field: Json) -> None:
    axes.yaxis.set_major_formatter(lambda value, _: number_tables.value_text(field, value, 0))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="y", linewidth=0.3)


def _names(axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    legend(axes, handles, list(names))
