"""Status grids and timelines."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from matplotlib import dates
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch, Rectangle
from matplotlib.typing import ColorType

from monitoring.plots import values
from monitoring.plots.prometheus import Line

Json = dict[str, Any]
DAY = 86400
MOST_ROWS, MOST_LINES = 24, 4


def grid(axes: Axes, field: Json, lines: list[Line]) -> None:
    """One cell for each night, around midnight as Grafana draws it, with the first sign of its text."""
    size = 7 if max((len(line.points) for line in lines), default=0) > 45 else 8
    for row, line in enumerate(lines):
        for at, value in line.points:
            x, text = at / DAY, values.text(field, value, 0)
            box = Rectangle((x - 0.45, row - 0.42), 0.9, 0.84, color=values.colour(field, value), linewidth=0)
            axes.add_patch(box)
            axes.text(
                x, row, text[0], ha="center", va="center", fontsize=size, color=ink(box.get_facecolor()), weight="bold"
            )
    _rows(axes, lines)
    known = {value for line in lines for _, value in line.points}
    handles = [
        Patch(color=found[1], label=found[0]) for value in sorted(known) if (found := values.words_of(field, value))
    ]
    legend(axes, handles, [str(handle.get_label()) for handle in handles])


def timeline(axes: Axes, field: Json, lines: list[Line]) -> None:
    """Neighbours of the same value are one bar with the value in it."""
    gaps = [later[0] - sooner[0] for line in lines for sooner, later in itertools.pairwise(line.points)]
    step = min(gaps, default=DAY)
    for row, line in enumerate(lines):
        for start, end, value in segments(line, step):
            width = (end - start) / DAY
            fill = values.colour(field, value) or "#888888"
            axes.broken_barh([(start / DAY, width)], (row - 0.38, 0.76), color=fill, edgecolor="white", linewidth=0.4)
            text = values.text(field, value, 0)
            axes.text(
                start / DAY + width / 2, row, text, ha="center", va="center", fontsize=7, color="black", clip_on=True
            )
    _rows(axes, lines)


def segments(line: Line, step: float) -> list[tuple[float, float, float]]:
    made: list[tuple[float, float, float]] = []
    for at, value in line.points:
        if made and made[-1][2] == value and at - made[-1][1] < step / 2:
            made[-1] = (made[-1][0], at + step, value)
        else:
            made.append((at, at + step, value))
    return made


def _rows(axes: Axes, lines: list[Line]) -> None:
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [line.name[:60] for line in lines], fontsize=8)
    by_day(axes)


def by_day(axes: Axes) -> None:
    axes.xaxis_date(tz=UTC)
    locator = dates.AutoDateLocator(tz=UTC, minticks=5, maxticks=14)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC, show_offset=False))  # type: ignore[no-untyped-call]
    axes.tick_params(labelsize=8)


def moments(line: Line) -> list[datetime]:
    return [datetime.fromtimestamp(at, tz=UTC) for at, _ in line.points]


def ink(field: ColorType) -> str:
    """Black on light fields, white on dark ones."""
    red, green, blue = to_rgb(field)
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.6 else "white"


def legend(axes: Axes, handles: Sequence[Artist], names: list[str]) -> None:
    """Below the dates, in as many columns as there is room for; what does not fit is counted."""
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
