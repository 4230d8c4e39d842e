import re
from typing import Any

import pytest
import yaml

from disttest_operator.metrics.families import FAMILIES, Family, FamilyType, Group
from tools.dashboards import prometheus_objects
from tools.dashboards.__main__ import MANIFESTS

OWN = {
    "disttest_dropped_series",
    "disttest_ledger_writes",
    "disttest_results_ingested",
    *(family.full_name for family in FAMILIES if family.group is Group.OPERATOR),
}


def scraped_names(family: Family) -> list[str]:
    endings = ("_bucket", "_count", "_sum") if family.type is FamilyType.HISTOGRAM else ("",)
    return [family.shown_name + ending for ending in endings]


def relabelings() -> list[dict[str, Any]]:
    monitor = yaml.safe_load((MANIFESTS / "service-monitor" / "service-monitor.yaml").read_text())
    entries: list[dict[str, Any]] = monitor["spec"]["endpoints"][0]["metricRelabelings"]
    return entries


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_pod_label_is_dropped_from_metrics_of_runs_and_kept_on_metrics_of_replicas(
    family: Family,
) -> None:
    for entry in relabelings():
        dropped = [name for name in scraped_names(family) if re.fullmatch(entry["regex"], name)]
        assert dropped == ([] if family.full_name in OWN else scraped_names(family))


def test_no_label_of_a_family_is_dropped() -> None:
    """Without a label such as `pod`, several values of a family would have the same labels."""
    labels = {label for family in FAMILIES for label in family.labels}
    assert labels.isdisjoint(entry["targetLabel"] for entry in relabelings())


def test_the_pattern_has_no_group_that_a_replacement_could_put_in() -> None:
    for entry in relabelings():
        assert re.compile(entry["regex"]).groups == 0
        assert set(entry) == {"sourceLabels", "targetLabel", "regex"}


def test_the_service_monitor_finds_the_operators_service() -> None:
    monitor = yaml.safe_load(prometheus_objects.SERVICE_MONITOR)
    service = yaml.safe_load((MANIFESTS.parent / "operator" / "service.yaml").read_text())
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert monitor["spec"]["endpoints"][0]["honorLabels"] is True
