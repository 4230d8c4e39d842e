"""A run's spec gets its defaults when it is created, and does not change after that."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.data.good_manifest import GOOD
from tests.support.clusters.api import Api

FROZEN = "field is immutable; create a new DistTest"


def test_independent_defaults_are_filled_in_and_the_others_are_left_to_the_operator(api: Api) -> None:
    manifest = {key: value for key, value in GOOD.items() if key != "spec"}
    made = api.create(manifest | {"metadata": {"name": "small"}, "spec": {"suites": [{"name": "collectives"}]}})
    assert made["spec"] == {
        "suites": [{"name": "collectives"}],
        "nodes": 1,
        "gpusPerNode": 8,
        "placement": "Spread",
        "retries": {"flaky": 1, "infrastructure": 1},
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "cancel": False,
    }


@pytest.fixture(scope="session")
def frozen(api: Api) -> tuple[str, str]:
    """Names of a run that says everything, and of one that says as little as possible."""
    manifest = {key: value for key, value in GOOD.items() if key != "spec"}
    api.create({**GOOD, "metadata": {"name": "whole"}})
    api.create(manifest | {"metadata": {"name": "bare"}, "spec": {"suites": [{"name": "collectives"}]}})
    return "whole", "bare"


CHANGES: Mapping[str, Any] = {
    "series": "weekly",
    "suites": [{"name": "collectives"}],
    "nodes": 3,
    "gpusPerNode": 16,
    "ranksPerNode": 7,
    "backend": "gloo",
    "transport": "rdma",
    "image": "example/other:1",
    "gpuResource": "amd.com/gpu",
    "placement": "Any",
    "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
    "queueName": "other",
    "timeouts": {"caseSeconds": 10},
    "retries": {"flaky": 0},
    "thresholds": [{"collective": "all_gather", "sizeBytes": 1, "minBusBandwidthBytesPerSecond": 1}],
    "artifacts": {"persistentVolumeClaim": "other"},
    "quarantine": {"configMap": {"name": "other"}},
    "template": {"spec": {"nodeSelector": {"example.com/gpu": "a100"}}},
}
HAS_DEFAULT = {"nodes", "gpusPerNode", "placement", "retries"}


def test_the_table_of_changes_has_every_field_of_the_spec() -> None:
    assert set(CHANGES) | {"ttlSecondsAfterFinished"} == set(GOOD["spec"])


@pytest.mark.parametrize("name", CHANGES)
def test_a_field_of_the_spec_cannot_be_changed(name: str, api: Api, frozen: tuple[str, str]) -> None:
    status, answer = api.patch(api.path(frozen[0]), {"spec": {name: CHANGES[name]}})
    assert status == 422, answer
    assert FROZEN in answer["message"]


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "suites"])
def test_a_field_of_the_spec_cannot_be_removed(name: str, api: Api, frozen: tuple[str, str]) -> None:
    status, answer = api.patch(api.path(frozen[0]), {"spec": {name: None}})
    if name in HAS_DEFAULT and status == 200:
        assert answer["spec"] == api.request("GET", api.path(frozen[0]))[1]["spec"]
        assert answer["metadata"]["generation"] == 1, "the default is what was there: nothing has changed"
    else:
        assert status == 422, answer
        assert FROZEN in answer["message"]


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in HAS_DEFAULT | {"suites"}])
def test_a_field_of_the_spec_cannot_be_added(name: str, api: Api, frozen: tuple[str, str]) -> None:
    status, answer = api.patch(api.path(frozen[1]), {"spec": {name: CHANGES[name]}})
    assert status == 422, answer
    assert FROZEN in answer["message"]


def test_the_ttl_can_be_added_changed_and_removed(api: Api, frozen: tuple[str, str]) -> None:
    for seconds in (60, 120, None):
        status, answer = api.patch(api.path(frozen[1]), {"spec": {"ttlSecondsAfterFinished": seconds}})
        assert status == 200, answer
        assert answer["spec"].get("ttlSecondsAfterFinished") == seconds
