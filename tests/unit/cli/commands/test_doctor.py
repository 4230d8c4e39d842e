"""`disttest doctor`: what each check makes of what it finds, and how they end together."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_cli.doctor import capacity, check, installation
from disttest_cli.doctor.check import Check, CheckState
from disttest_cli.kube.client import KubeClient
from disttest_cli.main import main
from tests.support import golden
from tests.support.builders import bodies
from tests.support.builders.bodies import NOW
from tests.support.fakes.canned import NAMESPACE, Answer, Server
from tests.support.paths import ROOT

CRD = ROOT / "manifests/crd/disttests.yaml"
FORBIDDEN = (403, {"message": "it is forbidden"})
NOT_FOUND = (404, b"404 page not found")
DEPLOYMENT = yaml.safe_load((CRD.parents[1] / "operator/deployment.yaml").read_text())
LEASE = {"spec": {"holderIdentity": "disttest-operator-7d9f", "renewTime": bodies.ago(4)}}


def published(*, without: str = "", more: str = "") -> dict[str, Any]:
    """As the API server describes the CRD; `without` a field of spec or status, with one `more` in spec."""
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        schema["properties"][part]["properties"].pop(without, None)
    if more:
        schema["properties"]["spec"]["properties"][more] = {"type": "string"}
    return {"components": {"schemas": {"dev.disttest.v1alpha1.DistTest": schema}}}


def a_node(name: str, gpus: str = "8", *, ready: str = "True", cordoned: bool = False, other: str = "") -> Any:
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-H100"}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "allocatable": {
                "cpu": "64",
                **({"nvidia.com/gpu": gpus} if gpus else {}),
                **({other: "4"} if other else {}),
            },
        },
    }


def a_deployment(ready: int = 1, *, replicas: int = 1, args: tuple[str, ...] = ()) -> Any:
    body = json.loads(json.dumps(DEPLOYMENT)) | {"status": {"readyReplicas": ready}}
    body["spec"]["replicas"] = replicas
    body["spec"]["template"]["spec"]["containers"][0]["args"] += args
    return body


def said(checks: list[Check]) -> tuple[CheckState, str]:
    return checks[0].state, f"{checks[0].words} | {checks[0].advice}"


class TestKinds:
    @pytest.mark.parametrize(
        ("document", "state", "words"),
        [
            (published(), CheckState.OK, "installed (disttest.dev/v1alpha1), with all "),
            (published(without="thresholds"), CheckState.PROBLEM, "does not contain spec.thresholds"),
            (
                published(more="later"),
                CheckState.WARNING,
                "newer than this command line, which does not support spec.later",
            ),
            (published(without="progress"), CheckState.WARNING, "has no status.progress"),
            ({}, CheckState.WARNING, "not published yet"),
        ],
        ids=["same", "older", "newer", "no progress", "nothing"],
    )
    def test_their_fields_are_compared_with_those_of_this_command_line(
        self, document: dict[str, Any], state: CheckState, words: str
    ) -> None:
        found = said(installation.judge_schema(document))
        assert found[0] is state
        assert words in found[1]


class TestRights:
    @pytest.mark.parametrize(
        ("refused", "state", "words"),
        [
            ([], CheckState.OK, "all commands are allowed"),
            (
                [("get", "", "pods", "log")],
                CheckState.WARNING,
                "missing in namespace x: get pods/log; required by: logs",
            ),
            ([("create", "disttest.dev", "disttests", "")], CheckState.WARNING, "ClusterRole edit"),
            (
                [("list", "disttest.dev", "disttests", "")],
                CheckState.PROBLEM,
                "ask an administrator for the ClusterRole view",
            ),
        ],
        ids=["all", "no logs", "no create", "none"],
    )
    def test_what_does_not_work_without_them_is_named(
        self, refused: list[tuple[str, str, str, str]], state: CheckState, words: str
    ) -> None:
        found = said(installation.judge_rights(refused, "x"))
        assert found[0] is state
        assert words in found[1]


class TestOperator:
    @pytest.mark.parametrize(
        ("body", "state", "words"),
        [
            (LEASE, CheckState.OK, "held by disttest-operator-7d9f, renewed 4s ago"),
            (None, CheckState.PROBLEM, "Lease disttest-operator does not exist in namespace system"),
            ({"spec": {"holderIdentity": ""}}, CheckState.PROBLEM, "the last one released the Lease"),
            ({"spec": {"holderIdentity": "x", "renewTime": bodies.ago(600)}}, CheckState.PROBLEM, "last 10m ago"),
            ({"spec": {"holderIdentity": "x"}}, CheckState.PROBLEM, "last an unknown time ago"),
        ],
        ids=["fresh", "none", "released", "stale", "odd"],
    )
    def test_a_lease_says_whether_one_acts(self, body: Any, state: CheckState, words: str) -> None:
        found = said(installation.judge_lease(body, "system", NOW))
        assert found[0] is state
        assert words in found[1]

    @pytest.mark.parametrize(
        ("body", "state", "words"),
        [
            (a_deployment(), CheckState.OK, "1 of 1 replicas ready, image disttest-operator:0.1.0"),
            (a_deployment(1, replicas=2), CheckState.WARNING, "1 of 2 replicas"),
            (a_deployment(0), CheckState.PROBLEM, "logs deploy/disttest-operator"),
            (a_deployment(0, replicas=0), CheckState.PROBLEM, "scale deploy/disttest-operator --replicas=1"),
            (a_deployment(args=("--namespaces=a,b",)), CheckState.PROBLEM, "watches only a, b, not gpu-ci"),
            (a_deployment(args=("--namespaces", "gpu-ci")), CheckState.OK, "1 of 1"),
        ],
        ids=["ready", "some", "none", "none wanted", "elsewhere", "here"],
    )
    def test_a_deployment_says_which_it_is_and_where_it_looks(self, body: Any, state: CheckState, words: str) -> None:
        checks = installation.judge_deployment(body, NAMESPACE)
        assert said(checks)[0] is state
        assert words in said(checks)[1]
        assert (checks[1].state, checks[1].words.split()[0]) == (CheckState.UNKNOWN, "disttest-runner:0.1.0")

    def test_a_flag_may_stand_in_the_environment(self) -> None:
        container = {"env": [{"name": "DISTTEST_OPERATOR_RUNNER_IMAGE", "value": "mine:1"}]}
        assert installation.said([container], "runner-image") == "mine:1"


class TestNodes:
    @pytest.mark.parametrize(
        ("nodes", "state", "words"),
        [
            (
                [a_node("a"), a_node("b")],
                CheckState.OK,
                "2 of 2 ready and schedulable; nvidia.com/gpu: 16 (2 x 8; NVIDIA-H100)",
            ),
            (
                [a_node("a"), a_node("b", cordoned=True)],
                CheckState.WARNING,
                "1 of 2 ready and schedulable; nvidia.com/gpu: 8",
            ),
            ([a_node("a", ready="Unknown")], CheckState.PROBLEM, "0 of 1 ready"),
            ([a_node("a", gpus="")], CheckState.WARNING, "nvidia.com/gpu: 0 | install the device plugin"),
            (
                [a_node("a", gpus="", other="amd.com/gpu")],
                CheckState.WARNING,
                "for amd.com/gpu, use --gpu-resource",
            ),
            ([], CheckState.PROBLEM, "0 of 0"),
        ],
        ids=["all", "cordoned", "not ready", "no GPUs", "other GPUs", "no nodes"],
    )
    def test_gpus_count_where_pods_may_go(self, nodes: list[Any], state: CheckState, words: str) -> None:
        found = said(capacity.judge_nodes(nodes, "nvidia.com/gpu"))
        assert found[0] is state
        assert words in found[1]

    @pytest.mark.parametrize(
        ("hard", "used", "state"),
        [
            ({"pods": "10"}, {"pods": "3"}, CheckState.OK),
            ({"pods": "10"}, {"pods": "10"}, CheckState.WARNING),
            ({}, {}, CheckState.OK),
        ],
    )
    def test_a_quota_that_is_used_up_is_a_warning(
        self, hard: dict[str, str], used: dict[str, str], state: CheckState
    ) -> None:
        body = {"metadata": {"name": "q"}, "status": {"hard": hard, "used": used}}
        assert said(capacity.judge_quota([body]))[0] is state


ANSWERS: dict[str, Answer] = {
    "/version": (200, {"gitVersion": "v1.34.1"}),
    "/apis/disttest.dev/v1alpha1": (200, {"resources": [{"name": "disttests"}, {"name": "disttestseries"}]}),
    "/openapi": (200, published()),
    **{f"review {number}": (201, {"status": {"allowed": True}}) for number in range(len(installation.WANTED))},
    "lease": (200, {"spec": {"holderIdentity": "x", "renewTime": "2999-01-01T00:00:00.000000Z"}}),
    "deployment": (200, a_deployment()),
    "namespace": (200, {"metadata": {"name": NAMESPACE, "labels": {capacity.ENFORCE: "restricted"}}}),
    "quota": (200, {"items": []}),
    "ranges": (200, {"items": []}),
    "nodes": (200, {"items": [a_node("a")]}),
    "kueue": (200, {"preferredVersion": {"version": "v1beta1"}}),
    "queues": (200, {"items": [{"metadata": {"name": "gpus"}}]}),
    "prometheus": NOT_FOUND,
}


@pytest.fixture
def doctor(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str, **changes: Answer) -> tuple[int, str]:
        server.answers = list((ANSWERS | changes).values())
        code = main(["doctor", "--kubeconfig", server.kubeconfig(tmp_path), *arguments])
        return code, capsys.readouterr().out.replace(server.url, "https://api.example")

    return run


def test_a_cluster_that_is_ready_has_no_problem(
    doctor: Callable[..., tuple[int, str]], *, updates_golden: bool
) -> None:
    code, text = doctor()
    assert code == 0
    golden.check(text, "doctor-ready.txt", updates=updates_golden)


def test_a_user_without_permissions_sees_what_was_not_checked(
    doctor: Callable[..., tuple[int, str]], *, updates_golden: bool
) -> None:
    names = ("lease", "deployment", "namespace", "quota", "ranges", "nodes", "queues")
    code, text = doctor(**dict.fromkeys(names, FORBIDDEN))
    assert code == 0
    golden.check(text, "doctor-no-rights.txt", updates=updates_golden)


def test_a_problem_has_an_exit_code_and_is_there_for_programs_too(doctor: Callable[..., tuple[int, str]]) -> None:
    missing = (404, {"message": "no", "details": {"name": NAMESPACE}})
    code, text = doctor("-o", "json", namespace=missing)
    found = json.loads(text)
    assert (code, found["problems"]) == (30, 1)
    assert {
        "name": "Namespace",
        "state": "problem",
        "message": "gpu-ci does not exist",
        "advice": "kubectl create namespace gpu-ci",
    } in found["checks"]


def test_no_api_server_is_one_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--kubeconfig", Server(url="http://127.0.0.1:1").kubeconfig(tmp_path)]) == 2
    out = capsys.readouterr().out
    assert out.startswith("problem      API server  cannot reach the API server at http://127.0.0.1:1")
    assert out.endswith("\n1 problem\n")


def test_kinds_that_are_not_installed_are_a_problem(api: KubeClient, server: Server) -> None:
    server.answers = [NOT_FOUND]
    looked = check.CheckedNamespace(server=api, namespace=NAMESPACE, operator_namespace="x", gpu_resource="y")
    assert said(installation.kinds(looked)) == (
        CheckState.PROBLEM,
        "not installed in this cluster | see docs/operating/installing.md",
    )
