"""Lines, stacked bars, rankings and curves."""

import re
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from monitoring.dashboards import sizes
from monitoring.dashboards.looks import BLUE
from monitoring.plots import values
from monitoring.plots.cells import DAY, by_day, legend, moments
from monitoring.plots.prometheus import Line

Json = dict[str, Any]


def lines(axes: Axes, panel: Json, answers: list[list[Line]]) -> None:
    field = panel["fieldConfig"]["defaults"]
    dashed = _dashed(panel)
    for target, answer in zip(panel["targets"], answers, strict=True):
        if target["refId"] not in dashed:
            for line in answer:
                _line(axes, panel, line, dashed=False)
    for target, answer in zip(panel["targets"], answers, strict=True):
        if target["refId"] in dashed:
            for line in answer:
                _line(axes, panel, line, dashed=True)
    for step in (field["custom"].get("thresholdsStyle") or {}) and field["thresholds"]["steps"]:
        if step["value"] is not None:
            axes.axhline(step["value"], color=step["color"], linestyle="--", linewidth=1)
    _scale(axes, field)
    by_day(axes)
    _names(axes)


def bars(axes: Axes, panel: Json, answer: list[Line]) -> None:
    """Stacked; a bar is as wide as most of a day."""
    bottoms: dict[float, float] = {}
    for line in sorted(answer, key=lambda line: line.name):
        heights = [value for _, value in line.points]
        below = [bottoms.get(at, 0.0) for at, _ in line.points]
        axes.bar(
            [at / DAY for at, _ in line.points],
            heights,
            bottom=below,
            width=0.8,
            label=line.name,
            color=_fixed(panel, line.name),
        )
        bottoms |= {at: bottoms.get(at, 0.0) + value for at, value in line.points}
    _scale(axes, panel["fieldConfig"]["defaults"])
    by_day(axes)
    _names(axes)


def ranking(axes: Axes, field: Json, answer: list[Line], end: float) -> None:
    rows = sorted(answer, key=lambda line: line.last)[-20:]
    axes.barh(
        range(len(rows)), [row.last for row in rows], color=[values.colour(field, row.last) or BLUE for row in rows]
    )
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    for place, row in enumerate(rows):
        axes.text(row.last, place, f" {values.text(field, row.last, end)}", va="center", fontsize=8)
    axes.margins(x=0.18)
    axes.set_xticks([])


def curve(axes: Axes, field: Json, answer: list[Line]) -> None:
    by_point: dict[str, list[tuple[int, float]]] = {}
    for line in answer:
        by_point.setdefault(line.labels["point"], []).append((int(line.labels["size_bytes"]), line.last))
    for point, pairs in sorted(by_point.items()):
        pairs.sort()
        axes.plot([size for size, _ in pairs], [value for _, value in pairs], marker="o", label=point, markersize=4)
    axes.set_xscale("log", base=2)
    ticks = sorted({size for pairs in by_point.values() for size, _ in pairs})
    axes.set_xticks(ticks, [sizes.spoken(size) for size in ticks], fontsize=8)
    _logarithmic(axes)
    _units(axes, field)
    _names(axes)


def renamed(panel: Json, name: str) -> str:
    for change in panel.get("transformations") or []:
        if change["id"] == "renameByRegex":
            options = change["options"]
            name = re.sub(options["regex"], options["renamePattern"].replace("$", "\\"), name)
    return name


def _line(axes: Axes, panel: Json, line: Line, *, dashed: bool) -> None:
    style: Json = {"linestyle": "--", "color": "#444444"} if dashed else {"marker": "o", "markersize": 2.5}
    if len(line.points) > 200:
        style["marker"] = ""
    if not dashed and (fixed := _fixed(panel, line.name)):
        style["color"] = fixed
    heights = [value for _, value in line.points]
    name = renamed(panel, line.name)
    axes.step(moments(line), heights, where="post", linewidth=1, label=name, **style)  # type: ignore[arg-type]


def _dashed(panel: Json) -> set[str]:
    overrides = panel["fieldConfig"]["overrides"]
    return {override["matcher"]["options"] for override in overrides if override["matcher"]["id"] == "byFrameRefID"}


def _fixed(panel: Json, name: str) -> str | None:
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == name:
            for change in override["properties"]:
                if change["id"] == "color":
                    return str(change["value"]["fixedColor"])
    return None


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
    axes.yaxis.set_major_formatter(lambda value, _: values.text(field, value, 0))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(visible=True, axis="y", linewidth=0.3)


def _names(axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    legend(axes, handles, list(names))
