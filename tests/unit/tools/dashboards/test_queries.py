"""What the dashboards ask: valid PromQL, of metrics and labels that exist, counters as rates."""

import re
from pathlib import Path

import pytest
import yaml

from disttest_operator.metrics import families
from disttest_operator.metrics.families import Family, FamilyType
from tests.support.monitoring.prometheus import promtool
from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import Board, to_json
from tools.dashboards.boards.queries import DAY, Chosen, Query, queries, step_seconds

CHOSEN = Chosen(namespace="gpu-ci", series="nightly-2x8")
QUERIES = tuple(queries(CHOSEN))

# Families that no dashboard draws, and why.
NOT_DRAWN = {
    "last_run_verdict": "disttest:verdict:code is made from it, and shows flaky cases too",
    "progress_writes": "bounded, and nothing depends on it; it explains why a run shows no progress",
    "followed_logs": "the same",
    "transport_info": "for alerts of users; a change is a row of `disttest compare`",
}
# What the rules record, with the labels that it has.
RECORDED = {
    "disttest:verdict:code": families.SERIES,
    "disttest:schedule:missed": families.SERIES,
    "disttest:pass_ratio:7d": families.SERIES,
    "disttest:collective_busbw:median_7d": families.POINT,
    "disttest:collective_busbw:to_median_ratio": families.POINT,
    "disttest:collective_busbw:to_threshold_ratio": families.POINT,
}
OF_THE_SCRAPE = {"instance", "job"}
OF_ALERTS = {"alertname", "alertstate", "severity", *families.SERIES}

METRIC = re.compile(r"\b((?:disttest[_:]|process_|ALERTS)[\w:]*)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")


def all_queries() -> list[object]:
    return [pytest.param(query, id=f"{query.dashboard}-{query.panel}-{query.ref}") for query in QUERIES]


each = pytest.mark.parametrize("query", all_queries())


def family_of(metric: str) -> Family | None:
    names = {family.shown_name: family for family in families.FAMILIES}
    for family in families.FAMILIES:
        if family.type is FamilyType.HISTOGRAM:
            names |= {f"{family.full_name}_{part}": family for part in ("bucket", "sum", "count")}
            del names[family.full_name]  # the bare name of a histogram has no samples
    return names.get(metric)


def labels_of(metric: str) -> set[str]:
    if metric == "ALERTS":
        return OF_ALERTS
    if metric.startswith("process_"):
        return OF_THE_SCRAPE
    if metric in RECORDED:
        return set(RECORDED[metric])
    family = family_of(metric)
    assert family, f"no family {metric!r}"
    return {*family.labels, *OF_THE_SCRAPE, *(("le",) if metric.endswith("_bucket") else ())}


def test_there_are_queries() -> None:
    assert len(QUERIES) > 100


@each
def test_metrics_exist_and_matchers_name_labels_that_they_have(query: Query) -> None:
    found = METRIC.findall(query.expr)
    assert found
    for metric, matchers in found:
        assert set(MATCHER.findall(matchers)) <= labels_of(metric), metric


@each
def test_what_is_grouped_by_is_a_label_of_a_metric_in_the_query(query: Query) -> None:
    known = set().union(*(labels_of(metric) for metric, _ in METRIC.findall(query.expr)))
    for group in GROUPING.findall(query.expr):
        assert {label.strip() for label in group.split(",")} <= known


@each
def test_a_name_is_made_of_labels_that_the_answer_has(query: Query) -> None:
    """What is grouped by is what is left."""
    grouped = {label.strip() for group in GROUPING.findall(query.expr) for label in group.split(",")}
    assert set(re.findall(r"\{\{(\w+)\}\}", query.name)) <= grouped


# A node has no sample before its first failure, so that increase() does not see that one: its value is queried too.
BORN_WITH_A_COUNT = {"disttest_node_failures_total"}


@each
def test_counters_are_asked_for_their_growth_only(query: Query) -> None:
    for metric, _ in METRIC.findall(query.expr):
        if metric in BORN_WITH_A_COUNT:
            continue
        family = family_of(metric)
        if metric.endswith("_seconds_total") or (family and family.type is not FamilyType.GAUGE):
            for place in re.finditer(re.escape(metric) + r"\b", query.expr):
                assert re.search(r"(?:rate|increase)\($", query.expr[: place.start()]), query.expr


@pytest.mark.parametrize("board", [pytest.param(board, id=board.uid) for board in DASHBOARDS])
def test_a_rate_is_of_the_interval_that_grafana_chooses(board: Board) -> None:

    for window in re.findall(r"\brate\([^\[]*\[([^\]]*)\]", to_json(board)):
        assert window == "$__rate_interval"


def test_every_family_is_drawn_or_has_a_reason_not_to_be() -> None:
    drawn = {family_of(metric) for query in QUERIES for metric, _ in METRIC.findall(query.expr)}
    missing = {family.name for family in families.FAMILIES if family not in drawn}
    assert missing == set(NOT_DRAWN)


def test_every_recorded_metric_is_drawn() -> None:
    assert set(RECORDED) <= {metric for query in QUERIES for metric, _ in METRIC.findall(query.expr)}


def test_promtool_can_read_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{index}", "expr": query.expr} for index, query in enumerate(QUERIES)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


def test_several_values_are_all_values_and_the_series_dashboard_shows_the_chosen_one() -> None:
    by_dashboard = {query.dashboard: query.expr for query in QUERIES if query.panel == "Verdict by day"}
    assert 'series=~".*"' in by_dashboard["disttest-nights"]
    assert 'series="nightly-2x8"' in by_dashboard["disttest-series"]
    assert "$" not in "".join(query.expr for query in QUERIES)


@pytest.mark.parametrize(
    ("least", "points", "step"), [("1d", 1000, DAY), (None, 60, DAY), ("6h", 1000, 21600), (None, 1000, 5184)]
)
def test_the_step_is_the_range_by_the_points_but_not_below_the_least(least: str | None, points: int, step: int) -> None:
    chosen = Chosen(namespace="n", series="s", points=points)
    assert step_seconds(least, chosen) == step
