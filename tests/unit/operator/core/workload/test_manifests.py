"""The objects that are created, against YAML that was read by people."""

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from disttest_contract.gang import environment
from disttest_contract.gang.environment import AgentEnvironment
from disttest_contract.gang.plan import RunPlan
from disttest_operator.core.api import cross_field_rules, naming
from disttest_operator.core.api.model import Defaults, DistTest, Manifest
from disttest_operator.core.api.parse import parse
from disttest_operator.core.status import events
from disttest_operator.core.status.events import Transition
from disttest_operator.core.workload.job import (
    build_job,
    build_report_config_map,
    build_series,
    build_service,
)
from disttest_operator.core.workload.run_plan import run_plan
from tests.data.good_manifest import GOOD, ON_ITS_NODE

Matches = Callable[[Mapping[str, Any], str], None]
CPU = {"suites": [{"name": "collectives"}], "nodes": 2, "gpusPerNode": 0, "placement": "Any"}
RUNNER = "disttest-runner:test"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def a_test(spec: Mapping[str, Any], *, name: str = "run") -> DistTest:
    metadata = {"name": name, "namespace": "gpu-ci", "uid": "7f1c4a52-0000-4000-8000-000000000001"}
    return parse({"metadata": metadata, "spec": spec}, Defaults(image=RUNNER))


def container(job: Manifest) -> Manifest:
    found: Manifest = job["spec"]["template"]["spec"]["containers"][0]
    return found


def env(job: Manifest) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container(job)["env"] if "value" in entry}


@pytest.mark.parametrize(
    ("spec", "golden"), [(CPU, "job-cpu.yaml"), (GOOD["spec"], "job-full.yaml")], ids=["cpu", "full"]
)
def test_the_job(spec: Mapping[str, Any], golden: str, matches: Matches) -> None:
    matches(build_job(a_test(spec), 1, "0123456789abcdef"), golden)


@pytest.mark.parametrize(
    ("spec", "visible"),
    [
        ({"gpusPerNode": 0}, ""),
        ({"gpusPerNode": 0, "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "1"}]}, "1"),
        ({"gpusPerNode": 2}, None),
        ({"gpusPerNode": 2, "backend": "gloo"}, None),
    ],
    ids=repr,
)
def test_a_run_that_requests_no_gpu_sees_none_unless_its_env_says_otherwise(
    spec: dict[str, Any], visible: str | None
) -> None:
    assert env(build_job(a_test(CPU | spec), 1, "n")).get("CUDA_VISIBLE_DEVICES") == visible


@pytest.mark.parametrize("own", [{}, {"image": "mine:1"}], ids=["runner image", "own image"])
def test_nvidias_runtime_adds_no_gpu_to_a_container_that_requests_none(own: dict[str, Any]) -> None:
    """An image based on CUDA's has the value `all`, which would add GPUs that are for other pods."""
    assert env(build_job(a_test(CPU | own), 1, "n"))["NVIDIA_VISIBLE_DEVICES"] == "void"


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_the_device_plugin_chooses_the_gpus_of_a_container_that_requests_some(backend: str) -> None:
    assert "NVIDIA_VISIBLE_DEVICES" not in env(build_job(a_test(CPU | {"gpusPerNode": 2, "backend": backend}), 1, "n"))


def test_the_job_of_a_gang_on_its_nodes(matches: Matches) -> None:
    """With what leaves PodSecurity restricted: the container that runs tests has it, the one that copies has not."""
    spec = CPU | {"image": "mine:1", "template": {"spec": ON_ITS_NODE}}
    matches(build_job(a_test(spec), 1, "0123456789abcdef"), "job-on-its-node.yaml")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, RESTRICTED),
        ({"privileged": False, "runAsUser": 1000}, RESTRICTED | {"runAsUser": 1000}),
        ({"runAsUser": 0}, RESTRICTED | {"runAsUser": 0, "runAsNonRoot": False}),
        (
            {"capabilities": {"add": ["IPC_LOCK", "IPC_LOCK"]}},
            RESTRICTED | {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}},
        ),
        (
            {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}},
            {"privileged": True, "readOnlyRootFilesystem": True},
        ),
    ],
    ids=repr,
)
def test_the_container_is_given_what_was_asked_for_and_no_more(asked: dict[str, Any], expected: dict[str, Any]) -> None:
    job = build_job(a_test(CPU | {"template": {"spec": {"securityContext": asked}}}), 1, "n")
    assert container(job)["securityContext"] == expected


@pytest.mark.parametrize(
    ("claim", "is_written"), [({"claimName": "a"}, True), ({"claimName": "a", "readOnly": True}, False)], ids=repr
)
def test_only_a_claim_that_is_written_to_gets_a_group(claim: dict[str, Any], is_written: bool) -> None:  # noqa: FBT001  # a column of the table
    pod = {"volumes": [{"name": "a", "persistentVolumeClaim": claim}]}
    spec = build_job(a_test(CPU | {"template": {"spec": pod}}), 1, "n")["spec"]["template"]["spec"]
    assert ("fsGroup" in spec["securityContext"]) is is_written


def test_the_names_and_places_that_templates_cannot_take_are_those_that_pods_have() -> None:
    everything = {**GOOD["spec"], "artifacts": {"persistentVolumeClaim": "dumps"}}
    pod = build_job(a_test(everything), 1, "n")["spec"]["template"]["spec"]
    names = {volume["name"] for volume in pod["volumes"]}
    assert {name for name in names if not name.startswith("suite-")} == set(cross_field_rules.TAKEN_VOLUMES)
    places = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    taken = cross_field_rules.TAKEN_PATHS
    assert all(any(f"{place}/".startswith(f"{one}/") for one in taken) for place in places)


def test_the_service(matches: Matches) -> None:
    matches(build_service(a_test(CPU), 1), "service.yaml")


def test_the_report_config_map(matches: Matches) -> None:
    made = build_report_config_map(a_test(CPU), "run-report", b"\x1f\x8b packed", "ab" * 32)
    matches(made, "report.yaml")
    assert base64.b64decode(made["binaryData"][naming.REPORT_KEY]) == b"\x1f\x8b packed"


def test_the_series(matches: Matches) -> None:
    matches(build_series("gpu-ci", "nightly-2x8"), "series.yaml")


def test_the_event(matches: Matches) -> None:
    passed = Transition(reason="Passed", note="all 54 cases passed", is_warning=False)
    matches(events.build(a_test(CPU), passed, now=NOW, instance="operator-0"), "event.yaml")


def test_the_same_event_has_the_same_name_and_another_has_another() -> None:
    def name(note: str, name: str = "run") -> str:
        transition = Transition(reason="R", note=note, is_warning=True)
        made = events.build(a_test(CPU, name=name), transition, now=NOW, instance="i" * 200)
        assert len(made["reportingInstance"]) <= 128
        assert len(made["note"].encode()) <= 1024
        return str(made["metadata"]["name"])

    assert name("a") == name("a")
    assert len({name("a"), name("b"), name("é" * 2000)}) == 3


def test_an_agent_can_read_what_its_pod_is_given() -> None:
    test = a_test(GOOD["spec"])
    values = env(build_job(test, 3, "secret"))
    downward = {
        environment.NODE_INDEX: "1",
        environment.NODE_NAME: "node-1",
        environment.POD_NAME: "run-a3-1-x",
        environment.POD_UID: "uid",
    }
    agent = AgentEnvironment.read(values | downward)
    assert agent.plan == run_plan(test, 3)
    assert (agent.nonce, agent.leader_host, agent.leader_port) == ("secret", "run-a3-0.run-a3.gpu-ci.svc", 29400)
    assert agent.plan.suites[1].directory == "/opt/disttest/suites/mine"
    assert agent.plan.spread


def test_what_looks_like_a_reference_in_the_plan_is_left_alone_by_kubernetes() -> None:
    """It would put values of other variables into the JSON, and make one dollar of two."""
    value = "$(HOME) $$(HOME) $$ ${HOME}"
    test = a_test({"suites": [{"name": "collectives", "env": [{"name": "A", "value": value}]}]})
    plan = env(build_job(test, 1, "n"))[environment.PLAN]
    assert "$" not in plan
    assert RunPlan.from_json(plan).suites[0].env == (("A", value),)


def test_the_claim_is_mounted_where_the_plan_says_and_its_group_may_write() -> None:
    spec = build_job(a_test(CPU | {"artifacts": {"persistentVolumeClaim": "dumps"}}), 1, "n")
    pod = spec["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in container(spec)["volumeMounts"]}
    assert mounts["artifacts"] == {"name": "artifacts", "mountPath": "/artifacts"}
    assert {"name": "artifacts", "persistentVolumeClaim": {"claimName": "dumps"}} in pod["volumes"]
    assert RunPlan.from_json(env(spec)[environment.PLAN]).artifacts == "/artifacts"
    assert pod["securityContext"]["fsGroup"] > 0
    without = build_job(a_test(CPU), 1, "n")["spec"]["template"]["spec"]
    assert "fsGroup" not in without["securityContext"]


def test_a_pod_has_shared_memory_and_no_right_to_trace_processes() -> None:
    job = build_job(a_test(GOOD["spec"]), 1, "n")
    volumes = {volume["name"]: volume for volume in job["spec"]["template"]["spec"]["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container(job)["volumeMounts"]}
    assert volumes[mounts["/dev/shm"]]["emptyDir"] == {"medium": "Memory"}  # noqa: S108  # a path inside the container
    assert container(job)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_users_environment_wins_over_defaults_and_nothing_is_set_twice() -> None:
    job = build_job(a_test(GOOD["spec"]), 1, "n")
    assert env(job)["NCCL_DEBUG"] == "INFO"
    names = [entry["name"] for entry in container(job)["env"]]
    assert len(names) == len(set(names))


def test_runs_without_gpus_have_no_nccl_settings_and_ask_for_nothing() -> None:
    job = build_job(a_test(CPU), 1, "n")
    assert not [name for name in env(job) if "NCCL" in name]
    assert "resources" not in container(job)


def test_gpus_stand_in_limits_and_requests_beside_the_users_resources() -> None:
    resources = container(build_job(a_test(GOOD["spec"]), 1, "n"))["resources"]
    assert resources["limits"] == {"memory": "512Gi", "nvidia.com/gpu": "8"}
    assert resources["requests"] == {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8"}


def test_only_an_image_of_ones_own_gets_the_runner_and_a_user() -> None:
    for image, is_own in (({}, False), ({"image": RUNNER}, False), ({"image": "mine:1"}, True)):
        job = build_job(a_test({**CPU, **image}), 1, "n")
        pod = job["spec"]["template"]["spec"]
        assert ("initContainers" in pod, "runAsUser" in pod["securityContext"]) == (is_own, is_own)
        assert any(volume["name"] == "runner" for volume in pod["volumes"]) is is_own
        assert (container(job)["command"][0] == "python3") is is_own


def test_nothing_is_mounted_inside_the_runners_volume() -> None:
    """It is read-only in the test's container, so that no place for another volume could be made in it."""
    mounts = [mount["mountPath"] for mount in container(build_job(a_test(GOOD["spec"]), 1, "n"))["volumeMounts"]]
    assert naming.RUNNER_DIRECTORY in mounts
    assert not [path for path in mounts if path.startswith(f"{naming.RUNNER_DIRECTORY}/")]


def test_devices_are_asked_for_by_the_test_only() -> None:
    resources = {"limits": {"memory": "8Gi", "rdma/hca": 1}, "requests": {"rdma/hca": 1}}
    spec = CPU | {"image": "mine:1", "template": {"spec": {"resources": resources}}}
    job = build_job(a_test(spec), 1, "n")
    assert only_init_container(spec)["resources"] == {"limits": {"memory": "8Gi"}}
    assert container(job)["resources"]["limits"] == {"memory": "8Gi", "rdma/hca": "1"}
    assert "resources" not in only_init_container({"gpusPerNode": 8, "backend": "nccl"})


def only_init_container(change: Mapping[str, Any]) -> Manifest:
    template = build_job(a_test({**CPU, "image": "mine:1", **change}), 1, "n")["spec"]["template"]
    [found] = template["spec"]["initContainers"]
    init_container: Manifest = found
    return init_container


def test_a_users_toleration_of_a_lost_node_replaces_ours() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    job = build_job(a_test(CPU | {"template": {"spec": {"tolerations": [own]}}}), 1, "n")
    tolerations = job["spec"]["template"]["spec"]["tolerations"]
    assert [(entry["key"], entry["tolerationSeconds"]) for entry in tolerations] == [
        ("node.kubernetes.io/not-ready", 5),
        ("node.kubernetes.io/unreachable", 60),
    ]


@pytest.mark.parametrize(
    ("change", "is_spread"),
    [({"placement": "Spread"}, True), ({"placement": "Any"}, False), ({"placement": "Spread", "nodes": 1}, False)],
    ids=repr,
)
def test_spread_forbids_two_pods_of_the_attempt_on_one_node(change: dict[str, Any], is_spread: bool) -> None:  # noqa: FBT001  # a column of the table
    template = build_job(a_test(CPU | change), 2, "n")["spec"]["template"]
    assert ("affinity" in template["spec"]) == is_spread
    if is_spread:
        [term] = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = term["labelSelector"]["matchLabels"]
        assert wanted.items() <= template["metadata"]["labels"].items()
        assert wanted["disttest.dev/attempt"] == "2"


def test_the_service_selects_the_pods_of_its_attempt_only() -> None:
    test = a_test(CPU)
    selector = build_service(test, 1)["spec"]["selector"]
    first, second = (build_job(test, n, "n")["spec"]["template"]["metadata"]["labels"] for n in (1, 2))
    assert selector.items() <= first.items()
    assert not selector.items() <= second.items()


def test_only_a_run_with_a_queue_is_created_suspended() -> None:
    queued, plain = (build_job(a_test(CPU | extra), 1, "n") for extra in ({"queueName": "q"}, {}))
    assert queued["spec"]["suspend"] is True
    assert queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert "kueue.x-k8s.io/queue-name" not in queued["spec"]["template"]["metadata"]["labels"]
    assert "suspend" not in plain["spec"]


def test_names_are_short_enough_for_the_longest_run() -> None:
    test = a_test(CPU | {"nodes": 512}, name="r" * 52)
    assert len(f"{naming.job(test, 9)}-511") <= 63
    assert len(naming.service(test, 9)) <= 63
    assert all(len(value) <= 63 for value in naming.labels(test, 9).values())


def test_labels_are_new_each_time() -> None:
    test = a_test(CPU)
    naming.labels(test, 1)["x"] = "y"
    assert "x" not in naming.labels(test, 1)


def test_runs_without_a_series_are_counted_as_adhoc() -> None:
    assert naming.series(a_test(CPU)) == "adhoc"
    assert naming.series(a_test(GOOD["spec"])) == "nightly-2x8"
