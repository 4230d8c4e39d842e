"""Plots of single numbers, tables and text panels."""

from typing import Any

from matplotlib.axes import Axes

from tools.dashboards.boards.styles import BLUE
from tools.dashboards.prometheus import SeriesLine

Json = dict[str, Any]
PER_SECOND = {"ops": "/s", "reqps": " req/s", "wps": " writes/s", "Bps": "B/s", "bytes": "B"}
SPANS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))


def words_of(field: Json, value: float) -> tuple[str, str] | None:
    """Text and colour of a mapped value."""
    for mapping in field.get("mappings") or []:
        if found := mapping["options"].get(f"{value:g}"):
            return found["text"], found["color"]
    return None


def value_text(field: Json, value: float, end: float) -> str:
    if found := words_of(field, value):
        return found[0]
    unit = field.get("unit", "short")
    if unit == "dateTimeFromNow":
        seconds = value / 1000 - end
        return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"
    if unit == "percentunit":
        return f"{value * 100:.{field.get('decimals') or 0}f} %"
    if unit == "s":
        return span(value)
    if unit == "bytes":
        return _scaled(value, 1024, ("", "Ki", "Mi", "Gi")) + "B"
    return _scaled(value, 1000, ("", "k", "M", "G", "T")) + PER_SECOND.get(unit, "")


def span(seconds: float) -> str:
    for size, unit in SPANS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "0 s"


def value_colour(field: Json, value: float) -> str | None:
    """The colour of the mapping or threshold, None if the field is not coloured by value."""
    if found := words_of(field, value):
        return found[1]
    if (field.get("color") or {}).get("mode") != "thresholds":
        return None
    steps = (field.get("thresholds") or {}).get("steps") or [{"value": None, "color": BLUE}]
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    return str(reached[-1])


def _scaled(value: float, base: int, prefixes: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(prefixes) - 1:
        value, power = value / base, power + 1
    return f"{value:.3g}{' ' if prefixes[power] else ''}{prefixes[power]}"


Cell = tuple[str, str | None]  # text, background
MOST_TEXT = 52


def number(axes: Axes, field: Json, answer: list[SeriesLine], end: float) -> None:
    axes.axis("off")
    shown = value_text(field, answer[0].last, end) if answer else "-"
    colour = value_colour(field, answer[0].last) if answer else None
    size = 26 if len(shown) < 6 else 15 if len(shown) < 14 else 11
    axes.text(0.5, 0.45, shown, ha="center", va="center", fontsize=size, color=colour or "black", weight="bold")


def words(axes: Axes, panel: Json, chosen: dict[str, str]) -> None:
    axes.axis("off")
    content = panel["options"]["content"]
    for name, value in chosen.items():
        content = content.replace(f"${{{name}:percentencode}}", value)
    axes.text(0.005, 0.95, content.strip(), va="top", fontsize=9, family="monospace", parse_math=False)


def no_data(axes: Axes) -> None:
    axes.axis("off")
    axes.text(0.5, 0.5, "no data", ha="center", va="center", fontsize=9, color="#777777")


def table(axes: Axes, panel: Json, answers: list[list[SeriesLine]], end: float, most_rows: int) -> None:
    axes.axis("off")
    headings, rows = _rows(panel, answers, end)
    if not rows:
        no_data(axes)
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


def _rows(panel: Json, answers: list[list[SeriesLine]], end: float) -> tuple[list[str], list[list[Cell]]]:
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
        + [_cell(overrides_of(panel, columns[i]), known.get(i), end) for i in range(len(columns))]
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


def _matrix(panel: Json, answer: list[SeriesLine], end: float) -> tuple[list[str], list[list[Cell]]]:
    options = panel["transformations"][0]["options"]
    row, column, field = options["rowField"], options["columnField"], panel["fieldConfig"]["defaults"]
    known = {(line.labels[row], line.labels[column]): line.last for line in answer}
    columns = sorted({key[1] for key in known})
    made = [
        [(name, None), *(_cell(field, known.get((name, other)), end) for other in columns)]
        for name in sorted({key[0] for key in known})
    ]
    return [panel["transformations"][1]["options"]["renameByName"][f"{row}\\{column}"], *columns], made


def overrides_of(panel: Json, name: str) -> Json:
    """The overrides of a column or series as settings of the field."""
    made: Json = {}
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"]["options"] == name:
            made |= {change["id"]: change["value"] for change in override["properties"]}
    return made


def _cell(field: Json, value: float | None, end: float) -> Cell:
    return ("-", None) if value is None else (value_text(field, value, end), value_colour(field, value))
