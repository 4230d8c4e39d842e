"""The variables of dashboards. Their values are queried again when the time range changes."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from tools.dashboards.boards.panels import SOURCE

ALL = model.VariableOption(selected=True, text=["All"], value=["$__all"])

DATASOURCE = build.DatasourceVariable("datasource").label("Data source").type("prometheus").build()


def _asked(name: str, label: str, query: str) -> build.QueryVariable:
    made = build.QueryVariable(name).label(label).datasource(SOURCE).query(query)
    return made.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.ALPHABETICAL_ASC)


def many(name: str, label: str, query: str) -> model.VariableModel:
    """Several values, or all: `.*` also matches what appeared after the list was read."""
    return (
        _asked(name, label, query).multi(multi=True).include_all(include_all=True).all_value(".*").current(ALL).build()
    )


def one(name: str, label: str, query: str) -> model.VariableModel:
    return _asked(name, label, query).build()


# disttest_runs_total exists, at 0, from the first run of a series.
NAMESPACES = many("namespace", "Namespace", "label_values(disttest_runs_total, namespace)")
SERIES = many("series", "Series", 'label_values(disttest_runs_total{namespace=~"$namespace"}, series)')
ONE_NAMESPACE = one("namespace", "Namespace", "label_values(disttest_runs_total, namespace)")
ONE_SERIES = one("series", "Series", 'label_values(disttest_runs_total{namespace="$namespace"}, series)')

_MEASURED = 'disttest_collective_busbw_bytes_per_second{namespace=~"$namespace", series=~"$series"}'
COLLECTIVES = many("collective", "Collective", f"label_values({_MEASURED}, collective)")
DTYPES = many("dtype", "Type", f"label_values({_MEASURED}, dtype)")
SIZES = many("size_bytes", "Size in bytes", f"label_values({_MEASURED}, size_bytes)")
INSTANCES = many("instance", "Replica", "label_values(disttest_build_info, instance)")
