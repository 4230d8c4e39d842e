"""The dashboard of the fabric: bandwidth against threshold and history, wrong elements, nodes."""

from tools.dashboards.boards import panels, promql, styles
from tools.dashboards.boards.board import Board, DashboardSection, Item
from tools.dashboards.boards.panels import Ask, Head, bars, curve, lines, ranking, summary
from tools.dashboards.boards.promql import MANY, PER_POINT, POINTS, count_or_zero, in_night_or_born, of_night
from tools.dashboards.boards.styles import FieldStyle
from tools.dashboards.boards.tables import Rows, TableColumn, matrix, table_of

TESTED = f"disttest_node_last_tested_timestamp_seconds{{{MANY}}}"
NO_BLAME = "absent while no node is blamed"
NONE_CONFIRMED = "no node was confirmed"


def nodes() -> DashboardSection:
    return DashboardSection(title="Suspect nodes", items=(_suspects(), *_confirmed()))


def _suspects() -> Item:
    return table_of(
        Head(
            "Suspect nodes",
            "Nodes that runs of any series blame; gone when a later run passed there. Confirmed: a second failure "
            "there, and a pass elsewhere.",
        ),
        Rows(keys=(("node", "Node"), ("reason", "Reason"), ("confirmed", "Confirmed")), sort="Node", descending=False),
        (
            TableColumn(
                "Suspect",
                "max by (node, reason, confirmed) (disttest_node_suspect)",
                style=FieldStyle(words=styles.YES_IS_BAD),
                width=80,
                or_empty=NO_BLAME,
            ),
        ),
    )


def _confirmed() -> tuple[Item, Item]:
    confirmed = ranking(
        Head(
            "Confirmed failures",
            "Runs so far that were sure that the node was at fault, by node and reason.",
        ),
        Ask(
            "max by (node, reason) (disttest_node_failures_total)",
            "{{node}} {{reason}}",
            or_empty=NONE_CONFIRMED,
        ),
        FieldStyle(decimals=0, lowest=0),
    )
    by_night = bars(
        Head(
            "Confirmed failures by night",
            "How many came to them on each day.",
            width=24,
            height=6,
            step=promql.NIGHT,
        ),
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
            "How long ago a run with results of each series was made on each node; empty: never, or forgotten.",
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
            "The 20 nodes whose last test by any chosen series is the oldest. Nodes that were never tested are not "
            "known here.",
            width=8,
            height=10,
        ),
        Ask(f"topk(20, time() - max by (node) ({TESTED}))", "{{node}}"),
        age,
    )
    return DashboardSection(title="Coverage", items=(by_series, longest, _each_night()))


def _each_night() -> Item:
    return lines(
        Head(
            "Nodes tested each night",
            "Nodes on which a run with results was made on that day, by series.",
            width=24,
            height=7,
            step=promql.NIGHT,
        ),
        (
            Ask(
                f"count by (series) (max by (series, node) ({of_night(TESTED)}) >= time())",
                "{{series}}",
            ),
            Ask(f"count(max by (node) ({of_night(TESTED)}) >= time())", "any"),
        ),
        FieldStyle(lowest=0, decimals=0),
    )


BUSBW = "disttest_collective_busbw_bytes_per_second"
REFERENCE = "disttest_collective_reference_busbw_bytes_per_second"
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
YOUNG = "absent until a series was measured on two days"
UNJUDGED = "absent where `spec.thresholds` names no threshold"


def _now() -> DashboardSection:
    rows = (
        (
            "Measurements",
            "Points (collective, type, size, nodes) that the last runs measured.",
            count_or_zero(f"{BUSBW}{{{POINTS}}}"),
            styles.NEUTRAL,
        ),
        (
            "Points with wrong elements",
            "Data came out wrong. This must be 0.",
            count_or_zero(f"disttest_collective_wrong_elements{{{POINTS}}} > 0"),
            styles.ANY_IS_BAD,
        ),
        (
            "Below their threshold",
            "Points below the threshold that the run was judged by.",
            count_or_zero(f"disttest:collective_busbw:to_reference_ratio{{{POINTS}}} < 1"),
            styles.ANY_IS_BAD,
        ),
        (
            "Below 93 % of their median",
            "Points that are slower than the median of their own last 7 days.",
            count_or_zero(f"disttest:collective_busbw:to_median_ratio{{{POINTS}}} < 0.93"),
            styles.ANY_IS_BAD,
        ),
        (
            "Nodes under suspicion",
            "Nodes that runs of any series blame now.",
            count_or_zero("count by (node) (disttest_node_suspect)"),
            styles.ANY_IS_BAD,
        ),
        (
            "Nodes tested in 7 days",
            "Nodes on which a run with results was made.",
            count_or_zero(f"count by (node) (time() - {TESTED} < 7 * 86400)"),
            styles.NEUTRAL,
        ),
    )
    return summary(rows, width=4)


def _points() -> DashboardSection:
    about = "What the last runs measured: one line for each collective, type, size and number of nodes."
    head = Head("Measurements of the last runs", about, width=24, height=10)
    measured = table_of(head, Rows(keys=KEYS, sort="Of median", descending=False), _columns())
    by_size = curve(
        Head("Bandwidth by size", "Bus bandwidth of the last run over the message size.", width=24, height=9),
        f'label_join(max by (series, collective, dtype, size_bytes) ({BUSBW}{{{POINTS}}}), "point", " ", '
        '"series", "collective", "dtype")',
        FieldStyle(unit="Bps"),
    )
    return DashboardSection(title="The last runs", items=(measured, by_size))


def _columns() -> tuple[TableColumn, ...]:
    def column(name: str, selector: str, style: FieldStyle, or_empty: str = "") -> TableColumn:
        return TableColumn(name, f"max by ({PER_POINT}) ({selector})", style=style, or_empty=or_empty)

    def recorded(name: str) -> str:
        return f"disttest:collective_busbw:{name}{{{POINTS}}}"

    speed, seconds = FieldStyle(unit="Bps", decimals=1), FieldStyle(unit="s")
    of_reference = FieldStyle(unit="percentunit", decimals=1, by_steps=True, steps=styles.TO_REFERENCE)
    of_median = FieldStyle(unit="percentunit", decimals=1, by_steps=True, steps=styles.TO_MEDIAN)
    wrong = FieldStyle(by_steps=True, steps=styles.ANY_IS_BAD)
    return (
        column("Bus bandwidth", f"{BUSBW}{{{POINTS}}}", speed),
        column("Threshold", f"{REFERENCE}{{{POINTS}}}", speed, UNJUDGED),
        column("Of threshold", recorded("to_reference_ratio"), of_reference, UNJUDGED),
        column("7-day median", recorded("median_7d"), speed, YOUNG),
        column("Of median", recorded("to_median_ratio"), of_median, YOUNG),
        column("Median rank", _time_of("median"), seconds),
        column("Slowest rank", _time_of("slowest"), seconds),
        column("Wrong elements", f"disttest_collective_wrong_elements{{{POINTS}}}", wrong),
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
        "Bus bandwidth of each night by type and size. Dashed: the threshold that the run was judged by.",
        (
            Ask(f"max by ({PER_POINT}) ({night(BUSBW)})", POINT),
            Ask(f"max by ({PER_POINT}) ({night(REFERENCE)})", f"{POINT} threshold", dashed=True, or_empty=UNJUDGED),
        ),
        FieldStyle(unit="Bps", log=10),
        repeat="collective",
    )
    bandwidth.panel.transformations = styles.renames()
    to_median = _nightly(
        "Bandwidth by its own 7-day median",
        "The slowest of the chosen types and sizes: 100 % is as usual. From 64 MiB on an alert fires below 93 %.",
        worst("disttest:collective_busbw:to_median_ratio", YOUNG),
        FieldStyle(unit="percentunit", steps=((None, "transparent"), (0.93, styles.RED)), dashed=True),
    )
    to_reference = _nightly(
        "Bandwidth by its threshold",
        "The slowest of the chosen types and sizes: below 100 % the run failed and an alert fires.",
        worst("disttest:collective_busbw:to_reference_ratio", UNJUDGED),
        FieldStyle(unit="percentunit", steps=((None, "transparent"), (1, styles.RED)), dashed=True),
    )
    return DashboardSection(title="Nights", items=(bandwidth, to_median, to_reference, _slowest(), _wrong()))


def _time_of(stat: str) -> str:
    return f'disttest_collective_time_seconds{{{POINTS}, stat="{stat}"}}'


def _slowest() -> Item:
    slow, median = (f"max by ({PER_POINT}) ({of_night(_time_of(stat))})" for stat in ("slowest", "median"))
    return _nightly(
        "Slowest rank by the median rank",
        "So many times the median of the ranks the slowest one took. Most collectives end for all ranks at once; "
        "send_recv_pair tells who was slow.",
        (Ask(f"max by ({PER_COLLECTIVE}) (\n  {slow}\n  / {median}\n)", COLLECTIVE),),
        FieldStyle(unit="none", decimals=2, lowest=1),
    )


def _wrong() -> Item:
    wrong = f"max by ({PER_POINT}) ({of_night(f'disttest_collective_wrong_elements{{{POINTS}}}')}) > 0"
    item = _nightly(
        "Wrong elements",
        "Elements of results that were wrong, over all ranks; points without any are not drawn.",
        (Ask(wrong, POINT, or_empty="no wrong elements in good nights"),),
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
        panels.DATASOURCE,
        panels.NAMESPACES,
        panels.SERIES,
        panels.COLLECTIVES,
        panels.DTYPES,
        panels.SIZES,
    ),
    sections=(_now(), _points(), _history(), nodes(), coverage()),
)
