"""Validation of a DistTest, and the defaults that depend on other fields."""

import copy
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Verdict
from disttest_contract.results.thresholds import Threshold
from disttest_operator.core.api.model import Artifacts, Backend, Defaults, DistTest, Placement, Retries, Suite, Timeouts
from disttest_operator.core.api.parse import InvalidSpecError, parse
from disttest_operator.core.api.template import SecurityContext, Template
from disttest_operator.core.workload import run_plan
from tests.data.good_manifest import GOOD, ON_ITS_NODE, REMOVE, changed
from tests.data.right_manifests import RIGHT, Right
from tests.data.wrong import Wrong
from tests.data.wrong_manifests import WRONG

DEFAULTS = Defaults(image="runner:default", gpu_resource="nvidia.com/gpu")


def smallest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "disttest.dev/v1alpha1",
        "kind": "DistTest",
        "metadata": {"name": "small"},
        "spec": {"suites": [{"name": "collectives"}], **spec},
    }


def parsed(**spec: Any) -> DistTest:
    return parse(smallest(**spec), DEFAULTS)


def problems(body: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidSpecError) as caught:
        parse(body, DEFAULTS)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def test_the_table_of_wrong_manifests_is_long_and_its_ids_are_unique() -> None:
    assert len(WRONG) >= 60
    assert len({wrong.id for wrong in WRONG}) == len(WRONG)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_a_wrong_manifest_is_refused_with_a_sentence(wrong: Wrong) -> None:
    found = problems(wrong.manifest)
    assert any(wrong.parser in problem for problem in found), found
    assert len(found) == 1, "one mistake, one sentence"


@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right.id)
def test_a_manifest_at_the_edge_of_what_is_allowed_is_accepted(right: Right) -> None:
    parse(right.manifest, DEFAULTS)


def test_all_problems_are_reported_at_once() -> None:
    found = problems(changed({"spec/nodes": 0, "spec/node": 1, "spec/suites/0/name": "A", "metadata/name": "A"}))
    assert [problem.partition(":")[0] for problem in found] == [
        "metadata.name",
        "spec.suites[0].name",
        "spec.nodes",
        "spec.node",
    ]


@pytest.mark.parametrize("body", [None, [], "DistTest", 3], ids=repr)
def test_something_that_is_no_object_is_refused(body: Any) -> None:
    assert problems(body) == ("document: must be a DistTest object: apiVersion, kind, metadata and spec",)


def test_the_good_manifest_is_read_whole() -> None:
    test = parse(GOOD, DEFAULTS)
    spec = test.spec
    assert (test.namespace, test.name, test.uid, test.is_deleting) == ("default", "good", "local", False)
    assert spec.series == "nightly-2x8"
    assert spec.suites == (
        Suite(name="collectives", builtin="collectives", env=(("COLLECTIVES_SIZES", "1M"),)),
        Suite(name="mine", config_map="tests", select="fast and not (slow or test_big[2])"),
        Suite(name="c10d", files=("test/distributed/test_c10d_common.py", "test/**/test_*.py")),
    )
    assert (spec.nodes, spec.gpus_per_node, spec.ranks_per_node, spec.world_size, spec.gpus) == (2, 8, 8, 16, 16)
    assert (spec.backend, spec.placement) == (Backend.NCCL, Placement.SPREAD)
    assert (spec.image, spec.gpu_resource, spec.queue_name) == (
        "example/disttest-runner:1.0",
        "nvidia.com/gpu",
        "gpu-nightly",
    )
    assert spec.env == (("NCCL_DEBUG", "INFO"), ("EMPTY", ""))
    assert spec.timeouts == Timeouts(queue_seconds=1800, rendezvous_seconds=300, case_seconds=300, run_seconds=7200)
    reached = Threshold(collective="all_reduce", size_bytes=1 << 20, min_bus_bandwidth_bytes_per_second=400_000_000)
    assert spec.thresholds == (
        reached,
        replace(reached, min_bus_bandwidth_bytes_per_second=500_000_000, dtype="bfloat16"),
    )
    assert (spec.retries, spec.artifacts) == (Retries(flaky=2), Artifacts(persistent_volume_claim="disttest-artifacts"))
    assert spec.ttl_seconds_after_finished == 604800
    assert spec.template == Template(
        labels={"team": "torch"},
        annotations={"example.com/why": "a driver was changed"},
        node_selector={"example.com/gpu": "h100"},
        tolerations=({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
        resources={"limits": {"memory": "512Gi"}, "requests": {"cpu": "32", "memory": "256Gi"}},
        priority_class_name="nightly",
        runtime_class_name="nvidia",
        scheduler_name="gang-scheduler",
        service_account_name="tests",
        image_pull_secrets=("registry",),
    )


def test_privileges_and_volumes_are_read() -> None:
    template = parsed(template={"spec": copy.deepcopy(dict(ON_ITS_NODE))}).spec.template
    assert (template.host_network, template.host_ipc, template.host_pid) == (True, True, True)
    assert template.security_context == SecurityContext(run_as_user=0, capabilities=("IPC_LOCK", "SYS_NICE"))
    assert template.volumes == tuple(ON_ITS_NODE["volumes"])
    assert template.volume_mounts == tuple(ON_ITS_NODE["volumeMounts"])
    assert template.claims == ({"claimName": "data", "readOnly": True},)


def test_reading_does_not_change_what_is_read() -> None:
    before = copy.deepcopy(dict(GOOD))
    parse(GOOD, DEFAULTS)
    assert before == GOOD


def test_the_smallest_manifest_gets_defaults() -> None:
    spec = parsed().spec
    assert spec.suites == (Suite(name="collectives", builtin="collectives"),)
    assert (spec.nodes, spec.gpus_per_node, spec.ranks_per_node, spec.backend) == (1, 8, 8, Backend.NCCL)
    assert (spec.image, spec.gpu_resource, spec.series) == ("runner:default", "nvidia.com/gpu", "")
    assert (spec.timeouts, spec.template, spec.ttl_seconds_after_finished) == (Timeouts(), Template(), None)
    assert (spec.retries, spec.artifacts) == (Retries(flaky=1), Artifacts())


STANDARD = Timeouts(queue_seconds=60, rendezvous_seconds=50, case_seconds=40, run_seconds=400)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, STANDARD),
        ({"queueSeconds": 1, "rendezvousSeconds": 2}, replace(STANDARD, queue_seconds=1, rendezvous_seconds=2)),
        ({"runSeconds": 10}, replace(STANDARD, run_seconds=10, case_seconds=10)),
        ({"runSeconds": 500}, replace(STANDARD, run_seconds=500)),
        ({"caseSeconds": 500}, replace(STANDARD, case_seconds=500, run_seconds=500)),
        ({"caseSeconds": 10, "runSeconds": 10}, replace(STANDARD, case_seconds=10, run_seconds=10)),
    ],
    ids=str,
)
def test_absent_timeouts_are_those_of_the_operator_and_adjusted(written: dict[str, int], expected: Timeouts) -> None:
    body = changed({"spec/timeouts": written})
    assert parse(body, replace(DEFAULTS, timeouts=STANDARD)).spec.timeouts == expected


@pytest.mark.parametrize(
    ("spec", "ranks", "backend"),
    [
        ({"gpusPerNode": 4}, 4, Backend.NCCL),
        ({"gpusPerNode": 4, "ranksPerNode": 2}, 2, Backend.NCCL),
        ({"gpusPerNode": 0}, 2, Backend.GLOO),
        ({"gpusPerNode": 0, "ranksPerNode": 16}, 16, Backend.GLOO),
        ({"gpusPerNode": 2, "backend": "gloo", "ranksPerNode": 4}, 4, Backend.GLOO),
    ],
    ids=repr,
)
def test_ranks_and_backend_follow_the_gpus(spec: dict[str, Any], ranks: int, backend: Backend) -> None:
    test = parsed(**spec)
    assert (test.spec.ranks_per_node, test.spec.backend) == (ranks, backend)


def test_a_suite_from_a_config_map_is_not_built_in() -> None:
    test = parsed(suites=[{"name": "mine", "configMap": {"name": "cm"}}, {"name": "a", "builtin": "collectives"}])
    assert test.spec.suites == (Suite(name="mine", config_map="cm"), Suite(name="a", builtin="collectives"))


def test_a_suite_of_files_is_not_built_in_and_its_files_are_below_the_upstream_root() -> None:
    test = parsed(suites=[{"name": "collectives", "files": ["test/a.py"], "select": "b", "env": [{"name": "C"}]}])
    assert run_plan.unknown_suites(test.spec) == ()
    assert run_plan.run_plan(test, 1).suites == (
        SuitePlan(name="collectives", root="/opt/pytorch", files=("test/a.py",), select="b", env=(("C", ""),)),
    )


def test_a_long_path_that_is_wrong_is_refused_at_once() -> None:
    """A pattern that tries every way to split it would not come back."""
    started = time.monotonic()
    assert problems(smallest(suites=[{"name": "a", "files": ["a." * 127 + "/"]}]))
    assert time.monotonic() - started < 1


def test_the_plan_says_how_often_and_where_to() -> None:
    plan = run_plan.run_plan(parsed(retries={"flaky": 3}, artifacts={"persistentVolumeClaim": "c"}), 1)
    assert (plan.flaky_retries, plan.artifacts) == (3, "/artifacts")
    plan = run_plan.run_plan(parsed(retries={"flaky": 0}), 1)
    assert (plan.flaky_retries, plan.artifacts) == (0, "")


def test_an_unknown_built_in_suite_is_accepted_and_can_be_named() -> None:
    test = parsed(suites=[{"name": "new"}, {"name": "collectives"}, {"name": "mine", "configMap": {"name": "cm"}}])
    assert run_plan.unknown_suites(test.spec) == ("new",)


def test_nulls_are_absent_and_whole_floats_are_whole_as_for_the_api_server() -> None:
    test = parsed(series=None, nodes=2.0, suites=[{"name": "a", "builtin": None, "configMap": None}], template=None)
    assert (test.spec.series, test.spec.nodes, test.spec.suites) == ("", 2, (Suite(name="a", builtin="a"),))
    assert isinstance(test.spec.nodes, int)


def test_the_operators_gpu_resource_cannot_be_asked_for_in_the_template() -> None:
    body = smallest(template={"spec": {"resources": {"limits": {"amd.com/gpu": 8}}}})
    parse(body, DEFAULTS)
    with pytest.raises(InvalidSpecError, match="GPUs are requested with gpusPerNode"):
        parse(body, Defaults(image="x", gpu_resource="amd.com/gpu"))


def test_a_newline_at_the_end_is_not_overlooked() -> None:
    assert problems(smallest(series="nightly\n"))
    assert problems(changed({"metadata/name": "good\n"}))


def test_a_run_that_has_only_a_generated_name_gets_one_here() -> None:
    body = changed({"metadata/name": REMOVE, "metadata/generateName": "nightly-"})
    assert parse(body, DEFAULTS).name == "nightly-local"


def test_a_generated_name_must_leave_room() -> None:
    found = problems(changed({"metadata/name": REMOVE, "metadata/generateName": "n" * 48}))
    assert found[0].startswith("metadata.generateName: must be at most 47")


def test_an_object_of_the_api_server_is_read_with_its_identity_and_status() -> None:
    body = {key: value for key, value in GOOD.items() if key not in {"apiVersion", "kind"}} | {
        "metadata": {
            "name": "good",
            "namespace": "gpu-ci",
            "uid": "1d8b",
            "generation": 3,
            "resourceVersion": "77",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T03:05:05Z",
            "managedFields": [],
        },
        "status": {"verdict": "Passed"},
    }
    test = parse(body, DEFAULTS)
    assert (test.namespace, test.uid, test.generation, test.resource_version) == ("gpu-ci", "1d8b", 3, "77")
    assert test.created == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert test.is_deleting
    assert test.verdict is Verdict.PASSED
