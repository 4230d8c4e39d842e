"""Numbers, tables and words."""

from typing import Any

from matplotlib.axes import Axes

from monitoring.plots import values
from monitoring.plots.prometheus import Line

Json = dict[str, Any]
Cell = tuple[str, str | None]  # text, background
MOST_TEXT = 52


def number(axes: Axes, field: Json, answer: list[Line], end: float) -> None:
    axes.axis("off")
    shown = values.text(field, answer[0].last, end) if answer else "-"
    colour = values.colour(field, answer[0].last) if answer else None
    size = 26 if len(shown) < 6 else 15 if len(shown) < 14 else 11
    axes.text(0.5, 0.45, shown, ha="center", va="center", fontsize=size, color=colour or "black", weight="bold")


def words(axes: Axes, panel: Json, chosen: dict[str, str]) -> None:
    axes.axis("off")
    content = panel["options"]["content"]
    for name, value in chosen.items():
        content = content.replace(f"${name}", value)
    axes.text(0.005, 0.95, content.strip(), va="top", fontsize=9, family="monospace")


def table(axes: Axes, panel: Json, answers: list[list[Line]], end: float, most_rows: int) -> None:
    axes.axis("off")
    headings, rows = _rows(panel, answers, end)
    if not rows:
        axes.text(0.5, 0.5, "no data", ha="center", va="center", fontsize=9, color="#777777")
        return
    left_out = max(0, len(rows) - most_rows)
    rows = rows[:most_rows]
    widths = [max(len(heading), *(len(row[i][0]) for row in rows)) + 2 for i, heading in enumerate(headings)]
    scale, height = max(sum(widths), 60), 1 / (most_rows + 1.5)
    _row(axes, [(heading, "#E4E7EB") for heading in headings], widths, scale, 1 - height, height)
    for index, row in enumerate(rows):
        _row(axes, row, widths, scale, 1 - (index + 2) * height, height)
    if left_out:
        axes.text(0, 0, f"… {left_out} more rows", fontsize=8, color="#777777")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _row(axes: Axes, row: list[Cell], widths: list[int], scale: int, y: float, height: float) -> None:
    x = 0.0
    for (text, background), wide in zip(row, widths, strict=True):
        width = wide / scale
        if background:
            axes.axhspan(y, y + height * 0.92, x, x + width * 0.985, color=background, alpha=0.45, linewidth=0)
        axes.text(x + 0.003, y + height * 0.45, text, va="center", fontsize=8)
        x += width


def _rows(panel: Json, answers: list[list[Line]], end: float) -> tuple[list[str], list[list[Cell]]]:
    if panel["transformations"][0]["id"] == "groupingToMatrix":
        return _matrix(panel, answers[0], end)
    renamed: Json = panel["transformations"][-1]["options"]["renameByName"]
    order: dict[str, int] = panel["transformations"][-1]["options"]["indexByName"]
    labels = sorted((name for name in renamed if not name.startswith("Value")), key=order.__getitem__)
    columns = [renamed[name] for name in sorted(set(renamed) - set(labels), key=order.__getitem__)]
    found: dict[tuple[str, ...], dict[int, float]] = {}
    for index, answer in enumerate(answers):
        for line in answer:
            found.setdefault(tuple(line.labels.get(label, "") for label in labels), {})[index] = line.last
    headings = [renamed[label] for label in labels] + columns
    rows = [
        [(text[:MOST_TEXT], None) for text in key]
        + [_cell(_settings(panel, columns[i]), known.get(i), end) for i in range(len(columns))]
        for key, known in _sorted(panel, headings, found, len(labels))
    ]
    return headings, rows


def _sorted(
    panel: Json, headings: list[str], found: dict[tuple[str, ...], dict[int, float]], labels: int
) -> list[tuple[tuple[str, ...], dict[int, float]]]:
    by = panel["options"]["sortBy"][0]
    place = headings.index(by["displayName"])
    rows = sorted(found.items())
    if place < labels:
        return sorted(rows, key=lambda row: row[0][place], reverse=by["desc"])
    worst = float("-inf") if by["desc"] else float("inf")
    return sorted(rows, key=lambda row: row[1].get(place - labels, worst), reverse=by["desc"])


def _matrix(panel: Json, answer: list[Line], end: float) -> tuple[list[str], list[list[Cell]]]:
    options = panel["transformations"][0]["options"]
    row, column, field = options["rowField"], options["columnField"], panel["fieldConfig"]["defaults"]
    known = {(line.labels[row], line.labels[column]): line.last for line in answer}
    columns = sorted({key[1] for key in known})
    made = [
        [(name, None), *(_cell(field, known.get((name, other)), end) for other in columns)]
        for name in sorted({key[0] for key in known})
    ]
    return [panel["transformations"][1]["options"]["renameByName"][f"{row}\\{column}"], *columns], made


def _settings(panel: Json, heading: str) -> Json:
    """The overrides of a column, as if they were the field's own settings."""
    made: Json = {}
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == heading:
            made |= {change["id"]: change["value"] for change in override["properties"]}
    return made


def _cell(field: Json, value: float | None, end: float) -> Cell:
    return ("-", None) if value is None else (values.text(field, value, end), values.colour(field, value))
