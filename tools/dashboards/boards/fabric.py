"""The dashboard of the fabric: bandwidth against threshold and history, wrong elements, nodes."""

from tools.dashboards.boards import panels, promql, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import (
    Ask,
    Head,
    Rows,
    TableColumn,
    bars,
    curve,
    lines,
    matrix,
    ranking,
    summary,
    table_of,
)
from tools.dashboards.boards.promql import MANY, PER_POINT, POINTS, in_night_or_born, of_night
from tools.dashboards.boards.styles import FieldStyle

TESTED = f"disttest_node_last_tested_timestamp_seconds{{{MANY}}}"
NO_SUSPECTS = "absent while no node is suspect"
NONE_CONFIRMED = "no node was confirmed"


def nodes() -> DashboardSection:
    return DashboardSection(title="Suspect nodes", items=(_suspects(), *_confirmed()))


def _suspects() -> Item:
    return table_of(
        Head(
            "Suspect nodes",
            "Nodes that runs of any series suspect, until a later run passes there. Confirmed: the run passed on "
            "other nodes.",
        ),
        Rows(keys=(("node", "Node"), ("reason", "Reason"), ("confirmed", "Confirmed")), sort="Node", descending=False),
        (
            TableColumn(
                "Suspect",
                "max by (node, reason, confirmed) (disttest_node_suspect)",
                style=FieldStyle(words=styles.YES_IS_BAD),
                width=80,
                or_empty=NO_SUSPECTS,
            ),
        ),
    )


def _confirmed() -> tuple[Item, Item]:
    confirmed = ranking(
        Head("Confirmed failures", "Runs that confirmed a fault of the node, by node and reason."),
        Ask("max by (node, reason) (disttest_node_failures_total)", "{{node}} {{reason}}", or_empty=NONE_CONFIRMED),
        FieldStyle(decimals=0, lowest=0),
    )
    by_night = bars(
        _each_day("Confirmed failures by day", "New confirmed failures of each day, by node.", height=6),
        Ask(
            f"sum by (node) ({in_night_or_born('disttest_node_failures_total')}) > 0.5",
            "{{node}}",
            or_empty=NONE_CONFIRMED,
        ),
        FieldStyle(decimals=0),
    )
    return confirmed, by_night


def coverage() -> DashboardSection:
    age = FieldStyle(unit="s", decimals=1, by_steps=True, steps=styles.NIGHTS_OLD)
    by_series = matrix(
        Head(
            "Last test of each node by series",
            "Time since the last run with results on each node, by series. Empty: never, or no longer retained.",
            width=16,
            height=10,
        ),
        f"time() - max by (node, series) ({TESTED})",
        ("node", "Node"),
        "series",
        age,
    )
    longest = ranking(
        Head(
            "Longest without a test",
            "The 20 nodes with the oldest last test by any selected series. Nodes that were never tested are not "
            "shown.",
            width=8,
            height=10,
        ),
        Ask(f"topk(20, time() - max by (node) ({TESTED}))", "{{node}}"),
        age,
    )
    return DashboardSection(title="Coverage", items=(by_series, longest, _each_night()))


def _each_day(title: str, about: str, *, height: int) -> Head:
    return Head(title, about, width=24, height=height, step=promql.NIGHT)


def _each_night() -> Item:
    return lines(
        _each_day("Nodes tested by day", "Nodes with a run with results on that day, by series.", height=7),
        (
            Ask(f"count by (series) (max by (series, node) ({of_night(TESTED)}) >= time())", "{{series}}"),
            Ask(f"count(max by (node) ({of_night(TESTED)}) >= time())", "any"),
        ),
        FieldStyle(lowest=0, decimals=0),
    )


BUSBW = "disttest_collective_busbw_bytes_per_second"
WRONG = f"disttest_collective_wrong_elements{{{POINTS}}}"
THRESHOLD = "disttest_collective_busbw_threshold_bytes_per_second"
POINT = "{{series}} {{collective}} {{dtype}} {{size_bytes}} B"
PER_COLLECTIVE, COLLECTIVE = "namespace, series, collective", "{{series}} {{collective}}"
KEYS = (
    ("namespace", "Namespace"),
    ("series", "Series"),
    ("collective", "Collective"),
    ("dtype", "Type"),
    ("size_bytes", "Size in bytes"),
    ("nodes", "Nodes"),
)
YOUNG = "absent until a series has measurements of two days"
UNJUDGED = "absent without a threshold in `spec.thresholds`"


def _recorded(name: str) -> str:
    return f"disttest:collective_busbw:{name}{{{POINTS}}}"


def _now() -> DashboardSection:
    measured = "Points (collective, type, size, nodes) measured by the last runs."
    below_threshold = f"count({_recorded('to_threshold_ratio')} < 1)"
    below_median = f"count({_recorded('to_median_ratio')} < 0.93)"
    suspects = "Nodes that runs of any series suspect."
    tested = f"count(count by (node) (time() - {TESTED} < 7 * 86400))"
    bad = styles.ANY_IS_BAD
    rows = (
        ("Measurements", measured, f"count({BUSBW}{{{POINTS}}})", styles.NEUTRAL),
        ("Points with wrong elements", "Points with wrong data. Must be 0.", f"count({WRONG} > 0)", bad),
        ("Below their threshold", "Points below the threshold of their run.", below_threshold, bad),
        ("Below 93 % of their median", "Points below 93 % of their 7-day median.", below_median, bad),
        ("Suspects", suspects, "count(count by (node) (disttest_node_suspect))", bad),
        ("Nodes tested in 7 days", "Nodes with a run with results in 7 days.", tested, styles.NEUTRAL),
    )
    return summary(rows, width=4)


def _points() -> DashboardSection:
    about = "One row for each collective, type, size and number of nodes that the last runs measured."
    head = Head("Measurements of the last runs", about, width=24, height=10)
    measured = table_of(head, Rows(keys=KEYS, sort="Of median", descending=False), _columns())
    by_size = curve(
        Head("Bandwidth by size", "Bus bandwidth of the last run by message size.", width=24, height=9),
        f'label_join(max by (series, collective, dtype, size_bytes) ({BUSBW}{{{POINTS}}}), "point", " ", '
        '"series", "collective", "dtype")',
        FieldStyle(unit="Bps"),
    )
    return DashboardSection(title="The last runs", items=(measured, by_size))


def _columns() -> tuple[TableColumn, ...]:
    def column(name: str, selector: str, style: FieldStyle, or_empty: str = "") -> TableColumn:
        return TableColumn(name, f"max by ({PER_POINT}) ({selector})", style=style, or_empty=or_empty)

    speed, seconds = FieldStyle(unit="Bps", decimals=1), FieldStyle(unit="s")
    of_threshold = FieldStyle(unit="percentunit", decimals=1, by_steps=True, steps=styles.TO_THRESHOLD)
    of_median = FieldStyle(unit="percentunit", decimals=1, by_steps=True, steps=styles.TO_MEDIAN)
    wrong = FieldStyle(by_steps=True, steps=styles.ANY_IS_BAD)
    return (
        column("Bus bandwidth", f"{BUSBW}{{{POINTS}}}", speed),
        column("Threshold", f"{THRESHOLD}{{{POINTS}}}", speed, UNJUDGED),
        column("Of threshold", _recorded("to_threshold_ratio"), of_threshold, UNJUDGED),
        column("7-day median", _recorded("median_7d"), speed, YOUNG),
        column("Of median", _recorded("to_median_ratio"), of_median, YOUNG),
        column("Median rank", _time_of("median"), seconds),
        column("Slowest rank", _time_of("slowest"), seconds),
        column("Wrong elements", WRONG, wrong),
    )


def _nightly(title: str, about: str, asks: tuple[Ask, ...], style: FieldStyle, repeat: str | None = None) -> Item:
    return lines(Head(title, about, step=promql.NIGHT, repeat=repeat), asks, style)


def _history() -> DashboardSection:
    def night(metric: str, more: str = "") -> str:
        return of_night(f"{metric}{{{POINTS}{more}}}")

    def worst(ratio: str, or_empty: str) -> tuple[Ask, ...]:
        return (Ask(f"min by ({PER_COLLECTIVE}) ({night(ratio)})", COLLECTIVE, or_empty=or_empty),)

    bandwidth = _nightly(
        "Bandwidth of $collective",
        "Bus bandwidth of each day by type and size. Dashed: the threshold of the run.",
        (
            Ask(f"max by ({PER_POINT}) ({night(BUSBW)})", POINT),
            Ask(f"max by ({PER_POINT}) ({night(THRESHOLD)})", f"{POINT} threshold", dashed=True, or_empty=UNJUDGED),
        ),
        FieldStyle(unit="Bps", log=10),
        repeat="collective",
    )
    bandwidth.panel.transformations = styles.renames()
    to_median = _nightly(
        "Bandwidth relative to its 7-day median",
        "The slowest of the selected types and sizes. For sizes from 64 MiB, an alert fires below 93 %.",
        worst("disttest:collective_busbw:to_median_ratio", YOUNG),
        FieldStyle(unit="percentunit", steps=((None, "transparent"), (0.93, styles.RED)), dashed=True),
    )
    to_threshold = _nightly(
        "Bandwidth relative to its threshold",
        "The slowest of the selected types and sizes. Below 100 %, the run fails and an alert fires.",
        worst("disttest:collective_busbw:to_threshold_ratio", UNJUDGED),
        FieldStyle(unit="percentunit", steps=((None, "transparent"), (1, styles.RED)), dashed=True),
    )
    return DashboardSection(title="History", items=(bandwidth, to_median, to_threshold, _slowest(), _wrong()))


def _time_of(stat: str) -> str:
    return f'disttest_collective_time_seconds{{{POINTS}, stat="{stat}"}}'


def _slowest() -> Item:
    slow, median = (f"max by ({PER_POINT}) ({of_night(_time_of(stat))})" for stat in ("slowest", "median"))
    return _nightly(
        "Slowest rank relative to the median rank",
        "Time of the slowest rank divided by the median of all ranks. Most collectives end for all ranks at the same "
        "time; send_recv_pair shows which rank is slow.",
        (Ask(f"max by ({PER_COLLECTIVE}) (\n  {slow}\n  / {median}\n)", COLLECTIVE),),
        FieldStyle(unit="none", decimals=2, lowest=1),
    )


def _wrong() -> Item:
    wrong = f"max by ({PER_POINT}) ({of_night(WRONG)}) > 0"
    item = _nightly(
        "Wrong elements",
        "Wrong elements of results, over all ranks. Points without any are not shown.",
        (Ask(wrong, POINT, or_empty="no wrong elements"),),
        FieldStyle(lowest=0, decimals=0),
    )
    item.panel.transformations = styles.renames()
    return item


BOARD = Board(
    uid="disttest-fabric",
    title="DistTest / Fabric",
    description="Bandwidth against threshold and history, wrong elements, slow ranks, suspect nodes, coverage.",
    since="now-60d",
    refresh="5m",
    variables=(
        *(panels.DATASOURCE, panels.NAMESPACES, panels.SERIES),
        *(panels.COLLECTIVES, panels.DTYPES, panels.SIZES),
    ),
    sections=(_now(), _points(), _history(), nodes(), coverage()),
)
