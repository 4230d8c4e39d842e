"""The fabric: bandwidth by collective and size against threshold and history, wrong elements, nodes."""

from monitoring.dashboards import looks, promql, sizes, variables
from monitoring.dashboards.board import Board, Item, Section
from monitoring.dashboards.looks import Look
from monitoring.dashboards.nodes import TESTED, coverage, nodes
from monitoring.dashboards.panels import Ask, Head, curve, lines, stat_of
from monitoring.dashboards.promql import PER_POINT, POINTS, count_or_zero, of_night
from monitoring.dashboards.tables import Column, Rows, table_of

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


def _number(title: str, about: str, expr: str, steps: looks.Steps) -> Item:
    return stat_of(Head(title, about, width=4, height=4), Ask(expr), Look(steps=steps, by_steps=True))


def _now() -> Section:
    rows = (
        (
            "Measurements",
            "Points (collective, type, size, nodes) that the last runs measured.",
            count_or_zero(f"{BUSBW}{{{POINTS}}}"),
            looks.NEUTRAL,
        ),
        (
            "Points with wrong elements",
            "Data came out wrong. This must be 0.",
            count_or_zero(f"disttest_collective_wrong_elements{{{POINTS}}} > 0"),
            looks.ANY_IS_BAD,
        ),
        (
            "Below their threshold",
            "Points below the threshold that the run was judged by.",
            count_or_zero(f"disttest:collective_busbw:to_reference_ratio{{{POINTS}}} < 1"),
            looks.ANY_IS_BAD,
        ),
        (
            "Below 93 % of their median",
            "Points that are slower than the median of their own last 7 days.",
            count_or_zero(f"disttest:collective_busbw:to_median_ratio{{{POINTS}}} < 0.93"),
            looks.ANY_IS_BAD,
        ),
        (
            "Nodes under suspicion",
            "Nodes that runs of any series blame now.",
            count_or_zero("count by (node) (disttest_node_suspect)"),
            looks.ANY_IS_BAD,
        ),
        (
            "Nodes tested in 7 days",
            "Nodes on which a run with results was made.",
            count_or_zero(f"count by (node) (time() - {TESTED} < 7 * 86400)"),
            looks.NEUTRAL,
        ),
    )
    return Section(title="Now", items=tuple(_number(*row) for row in rows))


def _points() -> Section:
    about = "What the last runs measured: one line for each collective, type, size and number of nodes."
    head = Head("Measurements of the last runs", about, width=24, height=10)
    measured = table_of(head, Rows(keys=KEYS, sort="Of median", descending=False), _columns())
    by_size = curve(
        Head("Bandwidth by size", "Bus bandwidth of the last run over the message size.", width=24, height=9),
        f'label_join(max by (series, collective, dtype, size_bytes) ({BUSBW}{{{POINTS}}}), "point", " ", '
        '"series", "collective", "dtype")',
        Look(unit="Bps"),
    )
    return Section(title="The last runs", items=(measured, by_size))


def _columns() -> tuple[Column, ...]:
    def column(name: str, selector: str, look: Look, or_empty: str = "") -> Column:
        return Column(name, f"max by ({PER_POINT}) ({selector})", look=look, or_empty=or_empty)

    def recorded(name: str) -> str:
        return f"disttest:collective_busbw:{name}{{{POINTS}}}"

    speed, seconds = Look(unit="Bps", decimals=1), Look(unit="s")
    of_reference = Look(unit="percentunit", decimals=1, by_steps=True, steps=looks.TO_REFERENCE)
    of_median = Look(unit="percentunit", decimals=1, by_steps=True, steps=looks.TO_MEDIAN)
    wrong = Look(by_steps=True, steps=looks.ANY_IS_BAD)
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


def _nightly(title: str, about: str, asks: tuple[Ask, ...], look: Look, repeat: str | None = None) -> Item:
    return lines(Head(title, about, step=promql.NIGHT, repeat=repeat), asks, look)


def _history() -> Section:
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
        Look(unit="Bps", log=10),
        repeat="collective",
    )
    bandwidth.panel.transformations = sizes.renames()
    to_median = _nightly(
        "Bandwidth by its own 7-day median",
        "The slowest of the chosen types and sizes: 100 % is as usual. From 64 MiB on an alert fires below 93 %.",
        worst("disttest:collective_busbw:to_median_ratio", YOUNG),
        Look(unit="percentunit", steps=((None, "transparent"), (0.93, looks.RED)), dashed=True),
    )
    to_reference = _nightly(
        "Bandwidth by its threshold",
        "The slowest of the chosen types and sizes: below 100 % the run failed and an alert fires.",
        worst("disttest:collective_busbw:to_reference_ratio", UNJUDGED),
        Look(unit="percentunit", steps=((None, "transparent"), (1, looks.RED)), dashed=True),
    )
    return Section(title="Nights", items=(bandwidth, to_median, to_reference, _slowest(), _wrong()))


def _time_of(stat: str) -> str:
    return f'disttest_collective_time_seconds{{{POINTS}, stat="{stat}"}}'


def _slowest() -> Item:
    slow, median = (f"max by ({PER_POINT}) ({of_night(_time_of(stat))})" for stat in ("slowest", "median"))
    return _nightly(
        "Slowest rank by the median rank",
        "So many times the median of the ranks the slowest one took. Most collectives end for all ranks at once; "
        "send_recv_pair tells who was slow.",
        (Ask(f"max by ({PER_COLLECTIVE}) (\n  {slow}\n  / {median}\n)", COLLECTIVE),),
        Look(unit="none", decimals=2, lowest=1),
    )


def _wrong() -> Item:
    wrong = f"max by ({PER_POINT}) ({of_night(f'disttest_collective_wrong_elements{{{POINTS}}}')}) > 0"
    item = _nightly(
        "Wrong elements",
        "Elements of results that were wrong, over all ranks; points without any are not drawn.",
        (Ask(wrong, POINT, or_empty="no wrong elements in good nights"),),
        Look(lowest=0, decimals=0),
    )
    item.panel.transformations = sizes.renames()
    return item


BOARD = Board(
    uid="disttest-fabric",
    title="DistTest / Fabric",
    description="Bandwidth against threshold and history, wrong elements, slow ranks, suspect nodes, coverage.",
    since="now-60d",
    refresh="5m",
    variables=(
        variables.DATASOURCE,
        variables.NAMESPACES,
        variables.SERIES,
        variables.COLLECTIVES,
        variables.DTYPES,
        variables.SIZES,
    ),
    sections=(_now(), _points(), _history(), nodes(), coverage()),
)
