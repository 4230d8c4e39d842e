"""Tables: one instant query a column, joined by the labels that all of them have."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from grafana_foundation_sdk.builders import common, table
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as model

from tools.dashboards.boards import styles
from tools.dashboards.boards.board import Item
from tools.dashboards.boards.panels import Ask, Head, table_query
from tools.dashboards.boards.styles import FieldStyle

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
    made = table.Panel().show_header(show_header=True).cell_height(kinds.TableCellHeight.SM).no_value("-")
    made = made.sort_by([common.TableSortByFieldState().display_name(rows.sort).desc(rows.descending)])
    made = made.filterable(filterable=True).unit("short")
    for column in columns:
        made = made.override_by_name(column.name, _properties(column))
    panel = made.build()
    panel.transformations = _joined(rows, [column.name for column in columns])
    return table_query(head, panel, tuple(Ask(column.expr, or_empty=column.or_empty) for column in columns))


def matrix(head: Head, expr: str, row: tuple[str, str], column: str, style: FieldStyle) -> Item:
    """One row for each value of a label, one column for each value of another."""
    made = table.Panel().show_header(show_header=True).cell_height(kinds.TableCellHeight.SM).no_value("-")
    panel = made.filterable(filterable=True).cell_options(_background()).build()
    label, heading = row
    styles.apply(style, panel)
    options = {"rowField": label, "columnField": column, "valueField": "Value", "emptyValue": "null"}
    panel.transformations = [
        model.DataTransformerConfig(id_val="groupingToMatrix", options=options),
        model.DataTransformerConfig(id_val="organize", options={"renameByName": {f"{label}\\{column}": heading}}),
    ]
    return table_query(head, panel, (Ask(expr),))


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
