"""The kinds of panels that the dashboards use."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    prometheus,
    stat,
    statetimeline,
    statushistory,
    table,
    text,
    timeseries,
    trend,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model
from grafana_foundation_sdk.models import text as text_model

from tools.dashboards.boards import promql, styles
from tools.dashboards.boards.board import DashboardSection, Item, QueryNeed
from tools.dashboards.boards.styles import FieldStyle

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
REPEATED_IN_A_LINE = 2


@dataclass(frozen=True, slots=True)
class Head:
    """The settings of each panel. `step` is the minimum time between two values."""

    title: str
    about: str
    _: KW_ONLY
    width: int = 12
    height: int = 8
    step: str | None = None
    link: tuple[str, str] | None = None
    repeat: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A query and its legend, in which {{label}} is replaced by the label."""

    expr: str
    name: str = ""
    _: KW_ONLY
    dashed: bool = False
    at_least: int = 1
    or_empty: str = ""

    @property
    def need(self) -> QueryNeed:
        return QueryNeed(at_least=self.at_least, or_empty=self.or_empty)


def stat_of(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """One number for the end of the time range."""
    options = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)
    made = stat.Panel().graph_mode(kinds.BigValueGraphMode.NONE).color_mode(kinds.BigValueColorMode.VALUE)
    made = made.reduce_options(options).text_mode(kinds.BigValueTextMode.AUTO).no_value("-")
    return item_of(head, made.build(), (ask,), style, instant=True)


def summary(rows: Iterable[tuple[str, str, str, styles.Steps]], *, width: int) -> DashboardSection:
    """The first section of a dashboard: one number for each title, description, query and colours.

    A query without a result counts as 0.
    """
    items = tuple(
        stat_of(
            Head(title, about, width=width, height=4),
            Ask(f"{expr} or vector(0)"),
            FieldStyle(steps=steps, by_steps=True),
        )
        for title, about, expr, steps in rows
    )
    return DashboardSection(title="Now", items=items)


def ranking(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """Bars for the end of the time range, one for each series."""
    options = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)
    made = bargauge.Panel().orientation(kinds.VizOrientation.HORIZONTAL).reduce_options(options)
    made = made.display_mode(kinds.BarGaugeDisplayMode.BASIC).value_mode(kinds.BarGaugeValueMode.TEXT)
    return item_of(head, made.build(), (ask,), style, instant=True)


def cells(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """One cell for each series and day. Cell texts are truncated to their width, so the sign is first."""
    made = statushistory.Panel().show_value(kinds.VisibilityMode.ALWAYS).row_height(0.9).col_width(0.9)
    made = made.fill_opacity(80).line_width(0).legend(_legend()).tooltip(_tooltip(kinds.TooltipDisplayMode.SINGLE))
    return item_of(replace(head, step=promql.NIGHT), made.build(), (ask,), style)


def timeline(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """One bar for each time span with the same value."""
    made = statetimeline.Panel().show_value(kinds.VisibilityMode.AUTO).merge_values(merge_values=True)
    made = made.row_height(0.8).fill_opacity(80).legend(_legend()).tooltip(_tooltip(kinds.TooltipDisplayMode.SINGLE))
    return item_of(head, made.build(), (ask,), style)


def lines(head: Head, asks: tuple[Ask, ...], style: FieldStyle) -> Item:
    """Steps with a point for each value. A dashed line is a limit, not a measurement."""
    made = timeseries.Panel().line_interpolation(kinds.LineInterpolation.STEP_AFTER).line_width(1)
    made = made.show_points(kinds.VisibilityMode.ALWAYS if head.step else kinds.VisibilityMode.AUTO).point_size(5)
    made = made.legend(_legend()).tooltip(_tooltip()).fill_opacity(0)
    if style.log:
        made = made.scale_distribution(_log(style.log))
    if style.dashed:
        dashes = common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED)
        made = made.thresholds_style(dashes)
    for index, ask in enumerate(asks):
        if ask.dashed:
            line = model.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]})
            points = model.DynamicConfigValue(id_val="custom.showPoints", value=kinds.VisibilityMode.NEVER)
            made = made.override_by_query(_ref(index), [line, points])
    return item_of(head, made.build(), asks, style)


def bars(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """Stacked bars, one for each step."""
    made = timeseries.Panel().draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    made = made.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")).bar_width_factor(0.8)
    made = made.bar_alignment(kinds.BarAlignment.CENTER).show_points(kinds.VisibilityMode.NEVER)
    made = made.legend(_legend()).tooltip(_tooltip())
    return item_of(head, made.build(), (ask,), style)


def curve(head: Head, expr: str, style: FieldStyle) -> Item:
    """Values by the label size_bytes, one line for each `point`. Both axes are logarithmic."""
    made = trend.Panel().x_field(styles.X_FIELD).draw_style(kinds.GraphDrawStyle.LINE).line_width(2)
    made = made.show_points(kinds.VisibilityMode.ALWAYS).point_size(7).scale_distribution(_log(10))
    made = made.legend(_legend()).tooltip(_tooltip()).override_by_name(styles.X_FIELD, styles.AXIS)
    item = item_of(head, made.build(), (Ask(expr),), style, table=True)
    item.panel.transformations = styles.curves()
    return item


def words(head: Head, content: str) -> Item:
    made = text.Panel().mode(text_model.TextMode.MARKDOWN).content(content).build()
    made.title, made.description = head.title, head.about
    return Item(panel=made, width=head.width, height=head.height)


def item_of(
    head: Head,
    panel: model.Panel,
    asks: tuple[Ask, ...],
    style: FieldStyle | None = None,
    *,
    instant: bool = False,
    table: bool = False,
) -> Item:
    """The panel with its head, style and queries; those of a table return rows with the labels as columns."""
    if style:
        styles.apply(style, panel)
    panel.title, panel.description = head.title, head.about
    panel.datasource, panel.interval = SOURCE, head.step
    panel.targets = [_query(index, ask, instant=instant or table, table=table) for index, ask in enumerate(asks)]
    if head.repeat:
        panel.repeat, panel.repeat_direction, panel.max_per_row = head.repeat, "h", REPEATED_IN_A_LINE
    if head.link and panel.field_config:
        title, url = head.link
        panel.field_config.defaults.links = [model.DashboardLink(title=title, url=url)]
    return Item(panel=panel, width=head.width, height=head.height, needs=tuple(ask.need for ask in asks))


def _query(index: int, ask: Ask, *, instant: bool, table: bool) -> prometheus_model.Dataquery:
    made = prometheus.Dataquery().ref_id(_ref(index)).expr(ask.expr).datasource(SOURCE)
    made = made.editor_mode(prometheus_model.QueryEditorMode.CODE)
    made = made.instant() if instant else made.range()
    if table:
        return made.format(prometheus_model.PromQueryFormat.TABLE).build()
    return made.format(prometheus_model.PromQueryFormat.TIME_SERIES).legend_format(ask.name or "__auto").build()


def _ref(index: int) -> str:
    return chr(ord("A") + index)


def _log(base: float) -> common.ScaleDistributionConfig:
    return common.ScaleDistributionConfig().type(kinds.ScaleDistribution.LOG).log(base)


def _legend() -> common.VizLegendOptions:
    made = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST).show_legend(show_legend=True)
    return made.placement(kinds.LegendPlacement.BOTTOM).calcs([])


def _tooltip(mode: kinds.TooltipDisplayMode = kinds.TooltipDisplayMode.MULTI) -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(mode).sort(kinds.SortOrder.DESCENDING)


COUNT = FieldStyle()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of values; with words or steps its cells are coloured."""

    name: str
    expr: str
    _: KW_ONLY
    style: FieldStyle = COUNT
    width: int | None = None
    or_empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """`keys` are the labels of a row with their headings, in order; `sort` is a heading."""

    keys: tuple[tuple[str, str], ...]
    sort: str
    descending: bool = True


def table_of(head: Head, rows: Rows, columns: Sequence[TableColumn]) -> Item:
    made = _table().unit("short")
    made = made.sort_by([common.TableSortByFieldState().display_name(rows.sort).desc(rows.descending)])
    for column in columns:
        made = made.override_by_name(column.name, _properties(column))
    panel = made.build()
    panel.transformations = _joined(rows, [column.name for column in columns])
    asks = tuple(Ask(column.expr, or_empty=column.or_empty) for column in columns)
    return item_of(head, panel, asks, table=True)


def matrix(head: Head, expr: str, row: tuple[str, str], column: str, style: FieldStyle) -> Item:
    """One row for each value of a label, one column for each value of another."""
    panel = _table().cell_options(_background()).build()
    label, heading = row
    options = {"rowField": label, "columnField": column, "valueField": "Value", "emptyValue": "null"}
    panel.transformations = [
        model.DataTransformerConfig(id_val="groupingToMatrix", options=options),
        model.DataTransformerConfig(id_val="organize", options={"renameByName": {f"{label}\\{column}": heading}}),
    ]
    return item_of(head, panel, (Ask(expr),), style, table=True)


def _table() -> table.Panel:
    made = table.Panel().show_header(show_header=True).cell_height(kinds.TableCellHeight.SM).no_value("-")
    return made.filterable(filterable=True)


def _joined(rows: Rows, names: list[str]) -> list[model.DataTransformerConfig]:
    values = ["Value"] if len(names) == 1 else [f"Value #{chr(ord('A') + index)}" for index in range(len(names))]
    renamed = dict(rows.keys) | dict(zip(values, names, strict=True))
    organize = {
        "excludeByName": {"Time": True},
        "indexByName": {name: index for index, name in enumerate(renamed)},
        "renameByName": renamed,
    }
    made = [model.DataTransformerConfig(id_val="organize", options=organize)]
    # `merge` joins rows with equal labels; joinByField supports one field only.
    return made if len(names) == 1 else [model.DataTransformerConfig(id_val="merge", options={}), *made]


def _properties(column: TableColumn) -> list[model.DynamicConfigValue]:
    style, made = column.style, [model.DynamicConfigValue(id_val="unit", value=column.style.unit)]
    if style.decimals is not None:
        made.append(model.DynamicConfigValue(id_val="decimals", value=style.decimals))
    if style.words:
        made.append(model.DynamicConfigValue(id_val="mappings", value=styles.mappings(style.words)))
    if style.by_steps:
        made.append(model.DynamicConfigValue(id_val="thresholds", value=styles.thresholds(style.steps)))
    if style.by_steps or style.words:
        made.append(model.DynamicConfigValue(id_val="custom.cellOptions", value=_background()))
        made.append(model.DynamicConfigValue(id_val="color", value={"mode": model.FieldColorModeId.THRESHOLDS}))
    if column.width:
        made.append(model.DynamicConfigValue(id_val="custom.width", value=column.width))
    return made


def _background() -> kinds.TableColoredBackgroundCellOptions:
    return kinds.TableColoredBackgroundCellOptions(mode=kinds.TableCellBackgroundDisplayMode.BASIC)


ALL = model.VariableOption(selected=True, text=["All"], value=["$__all"])

DATASOURCE = build.DatasourceVariable("datasource").label("Data source").type("prometheus").build()


def choose_one(name: str, label: str, query: str) -> build.QueryVariable:
    made = build.QueryVariable(name).label(label).datasource(SOURCE).query(query)
    return made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.ALPHABETICAL_ASC)


def choose_many(name: str, label: str, query: str) -> model.VariableModel:
    """Several values, or all: `.*` also matches what appeared after the list was read."""
    made = choose_one(name, label, query).multi(multi=True).include_all(include_all=True)
    return made.all_value(".*").current(ALL).build()


# disttest_runs_total exists, at 0, from the first run of a series.
NAMESPACES = choose_many("namespace", "Namespace", "label_values(disttest_runs_total, namespace)")
SERIES = choose_many("series", "Series", 'label_values(disttest_runs_total{namespace=~"$namespace"}, series)')
ONE_NAMESPACE = choose_one("namespace", "Namespace", "label_values(disttest_runs_total, namespace)").build()
ONE_SERIES = choose_one("series", "Series", 'label_values(disttest_runs_total{namespace="$namespace"}, series)').build()

_MEASURED = 'disttest_collective_busbw_bytes_per_second{namespace=~"$namespace", series=~"$series"}'
COLLECTIVES = choose_many("collective", "Collective", f"label_values({_MEASURED}, collective)")
DTYPES = choose_many("dtype", "Type", f"label_values({_MEASURED}, dtype)")
SIZES = choose_many("size_bytes", "Size in bytes", f"label_values({_MEASURED}, size_bytes)")
INSTANCES = choose_many("instance", "Replica", "label_values(disttest_build_info, instance)")
