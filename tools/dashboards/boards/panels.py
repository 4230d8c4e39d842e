"""The kinds of panels that the dashboards use."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    prometheus,
    stat,
    statetimeline,
    statushistory,
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
    """The settings that every panel has. `step` is the least distance of two values."""

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
    return _item(head, made.build(), (ask,), style, instant=True)


def summary(rows: Iterable[tuple[str, str, str, styles.Steps]], *, width: int) -> DashboardSection:
    """The first section of a dashboard: one number for each title, description, query and its colours."""
    heads = ((Head(title, about, width=width, height=4), expr, steps) for title, about, expr, steps in rows)
    items = tuple(stat_of(head, Ask(expr), FieldStyle(steps=steps, by_steps=True)) for head, expr, steps in heads)
    return DashboardSection(title="Now", items=items)


def ranking(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """Bars for the end of the time range, one for each series."""
    options = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)
    made = bargauge.Panel().orientation(kinds.VizOrientation.HORIZONTAL).reduce_options(options)
    made = made.display_mode(kinds.BarGaugeDisplayMode.BASIC).value_mode(kinds.BarGaugeValueMode.TEXT)
    return _item(head, made.build(), (ask,), style, instant=True)


def cells(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """One cell for each series and night. Cell texts are cut to their width, so the sign comes first."""
    made = statushistory.Panel().show_value(kinds.VisibilityMode.ALWAYS).row_height(0.9).col_width(0.9)
    made = made.fill_opacity(80).line_width(0).legend(_legend()).tooltip(_tooltip(kinds.TooltipDisplayMode.SINGLE))
    return _item(head, made.build(), (ask,), style, step=promql.NIGHT)


def timeline(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """One bar for as long as a value stays."""
    made = statetimeline.Panel().show_value(kinds.VisibilityMode.AUTO).merge_values(merge_values=True)
    made = made.row_height(0.8).fill_opacity(80).legend(_legend()).tooltip(_tooltip(kinds.TooltipDisplayMode.SINGLE))
    return _item(head, made.build(), (ask,), style)


def lines(head: Head, asks: tuple[Ask, ...], style: FieldStyle) -> Item:
    """Steps with a point for each value; a dashed line is a bound, not a measurement."""
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
            style_value = {"fill": "dash", "dash": [8, 8]}
            made = made.override_by_query(
                _ref(index),
                [
                    model.DynamicConfigValue(id_val="custom.lineStyle", value=style_value),
                    model.DynamicConfigValue(id_val="custom.showPoints", value=kinds.VisibilityMode.NEVER),
                ],
            )
    return _item(head, made.build(), asks, style)


def bars(head: Head, ask: Ask, style: FieldStyle) -> Item:
    """Stacked bars, one for each step."""
    made = timeseries.Panel().draw_style(kinds.GraphDrawStyle.BARS).fill_opacity(80).line_width(0)
    made = made.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A")).bar_width_factor(0.8)
    made = made.bar_alignment(kinds.BarAlignment.CENTER).show_points(kinds.VisibilityMode.NEVER)
    made = made.legend(_legend()).tooltip(_tooltip())
    return _item(head, made.build(), (ask,), style)


def curve(head: Head, expr: str, style: FieldStyle) -> Item:
    """Values over the label size_bytes, a line for each `point`, both logarithmic."""
    made = trend.Panel().x_field(styles.X_FIELD).draw_style(kinds.GraphDrawStyle.LINE).line_width(2)
    made = made.show_points(kinds.VisibilityMode.ALWAYS).point_size(7).scale_distribution(_log(10))
    made = made.legend(_legend()).tooltip(_tooltip()).override_by_name(styles.X_FIELD, styles.AXIS)
    item = table_query(head, made.build(), (Ask(expr),))
    styles.apply(style, item.panel)
    item.panel.transformations = styles.curves()
    return item


def words(head: Head, content: str) -> Item:
    made = text.Panel().mode(text_model.TextMode.MARKDOWN).content(content).build()
    made.title, made.description = head.title, head.about
    return Item(panel=made, width=head.width, height=head.height)


def table_query(head: Head, panel: model.Panel, asks: tuple[Ask, ...]) -> Item:
    """Rows for the end of the time range, with the labels as columns."""
    return _finish(head, panel, asks, [_query(i, ask, instant=True, table=True) for i, ask in enumerate(asks)])


def _finish(head: Head, panel: model.Panel, asks: tuple[Ask, ...], queries: list[prometheus_model.Dataquery]) -> Item:
    panel.title, panel.description = head.title, head.about
    panel.datasource, panel.targets, panel.interval = SOURCE, list(queries), head.step
    if head.repeat:
        panel.repeat, panel.repeat_direction, panel.max_per_row = head.repeat, "h", REPEATED_IN_A_LINE
    if head.link and panel.field_config:
        title, url = head.link
        panel.field_config.defaults.links = [model.DashboardLink(title=title, url=url)]
    return Item(panel=panel, width=head.width, height=head.height, needs=tuple(ask.need for ask in asks))


def _item(
    head: Head,
    panel: model.Panel,
    asks: tuple[Ask, ...],
    style: FieldStyle,
    *,
    instant: bool = False,
    step: str | None = None,
) -> Item:
    styles.apply(style, panel)
    item = _finish(head, panel, asks, [_query(i, ask, instant=instant) for i, ask in enumerate(asks)])
    if step:
        panel.interval = step
    return item


def _query(index: int, ask: Ask, *, instant: bool = False, table: bool = False) -> prometheus_model.Dataquery:
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


ALL = model.VariableOption(selected=True, text=["All"], value=["$__all"])

DATASOURCE = build.DatasourceVariable("datasource").label("Data source").type("prometheus").build()


def _asked(name: str, label: str, query: str) -> build.QueryVariable:
    made = build.QueryVariable(name).label(label).datasource(SOURCE).query(query)
    return made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.ALPHABETICAL_ASC)


def choose_many(name: str, label: str, query: str) -> model.VariableModel:
    """Several values, or all: `.*` also matches what appeared after the list was read."""
    return (
        _asked(name, label, query).multi(multi=True).include_all(include_all=True).all_value(".*").current(ALL).build()
    )


def choose_one(name: str, label: str, query: str) -> model.VariableModel:
    return _asked(name, label, query).build()


# disttest_runs_total exists, at 0, from the first run of a series.
NAMESPACES = choose_many("namespace", "Namespace", "label_values(disttest_runs_total, namespace)")
SERIES = choose_many("series", "Series", 'label_values(disttest_runs_total{namespace=~"$namespace"}, series)')
ONE_NAMESPACE = choose_one("namespace", "Namespace", "label_values(disttest_runs_total, namespace)")
ONE_SERIES = choose_one("series", "Series", 'label_values(disttest_runs_total{namespace="$namespace"}, series)')

_MEASURED = 'disttest_collective_busbw_bytes_per_second{namespace=~"$namespace", series=~"$series"}'
COLLECTIVES = choose_many("collective", "Collective", f"label_values({_MEASURED}, collective)")
DTYPES = choose_many("dtype", "Type", f"label_values({_MEASURED}, dtype)")
SIZES = choose_many("size_bytes", "Size in bytes", f"label_values({_MEASURED}, size_bytes)")
INSTANCES = choose_many("instance", "Replica", "label_values(disttest_build_info, instance)")
