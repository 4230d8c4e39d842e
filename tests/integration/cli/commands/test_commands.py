"""The command line as its users start it, on a real cluster: one run that fails, looked at in every way."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import OperatorProcess, config_map, disttest
from tests.support.shell import EndedCommand, Shell

SUITE = """
import os

def test_good():
    pass

def test_bad():
    print("this is rank", os.environ["RANK"], flush=True)
    assert os.environ["RANK"] != "3", "rank 3 is never right"
"""


@pytest.fixture(scope="module")
def shell(
    cluster: SessionCluster, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """The administrator, and the one run that has ended by then."""
    with cluster.namespace() as namespace:
        cluster.apply(config_map(namespace, "own", SUITE))
        shell = Shell(kubeconfig=cluster.kubeconfig, namespace=namespace, directory=tmp_path_factory.mktemp("cli"))
        suite = {"name": "own", "configMap": {"name": "own"}}
        once = {"infrastructure": 0, "flaky": 0}
        run = disttest(namespace, "night", suites=[suite], series="nights", retries=once)
        ended = shell.start("apply", "-f", "-", "--wait", stdin=json.dumps(run))
        assert ended.code == 10, ended
        assert ended.out.splitlines()[-1].startswith("night: TestsFailed (CasesFailed): "), ended.out
        assert any("test_bad rank 3 on " in line for line in ended.out.splitlines()), ended.out
        yield shell


def test_list_has_the_run_also_as_a_plugin_of_kubectl(cluster: SessionCluster, shell: Shell) -> None:
    head, row = shell.lines("list", "--series", "nights", "--verdict", "TestsFailed")
    assert head.split()[:4] == ["NAME", "SERIES", "VERDICT", "PHASE"]
    assert row.split()[:9] == ["night", "nights", "TestsFailed", "Finished", "2/2", "2", "0", "1", "1"]
    assert shell("list", "--verdict", "Hung", "-n", shell.namespace) == EndedCommand(
        code=0, out="", error=f"No DistTests that match in namespace {shell.namespace}.\n"
    )
    plugin = shell.start("disttest", "list", "-A", "-o", "name", program=cluster.program)
    assert plugin.code == 0, plugin
    assert "disttest.disttest.dev/night" in plugin.out.splitlines()


def test_list_prints_the_objects_that_kubectl_prints(cluster: SessionCluster, shell: Shell) -> None:
    ours = json.loads("\n".join(shell.lines("list", "-o", "json")))
    theirs = json.loads(cluster.kubectl("get", "dt", "-n", shell.namespace, "-o", "json"))
    assert ours == theirs


def test_describe_says_what_why_where_and_what_to_do(shell: Shell) -> None:
    lines = shell.start("describe", "night", "-n", shell.namespace).out.splitlines()
    assert lines[0] == f"{shell.namespace}/night: TestsFailed (CasesFailed)"
    text = "\n".join(lines)
    assert "To do      Read the failures and run `disttest logs --failed`." in text
    assert "rank 3 is never right" in text
    assert "2 nodes x 2 ranks with gloo" in text
    assert "night-a1-1-" in text
    assert "exit code 10" in text
    assert "TestsFailed" in text.partition("EVENT")[2]
    assert "Not shown" not in text


def test_logs_are_those_of_the_leader_a_rank_or_the_failed_ranks(shell: Shell) -> None:
    leader = shell.start("logs", "night", "-n", shell.namespace).out.splitlines()
    assert "[rank 0] this is rank 0" in leader
    assert not [line for line in leader if line.startswith("DISTTEST-")]
    assert [line for line in shell.lines("logs", "night", "--raw") if line.startswith("DISTTEST-REPORT")]
    assert "[rank 2] this is rank 2" in shell.lines("logs", "night", "--rank", "2")
    header, *blamed = shell.lines("logs", "night", "--failed")
    assert header.startswith("==> rank 3 of node 1 (night-a1-1-")
    assert header.endswith("test_bad <==")
    assert "[rank 3] this is rank 3" in blamed
    assert not [line for line in blamed if not line.startswith("[rank 3] ")]


def test_the_report_is_there_too(shell: Shell) -> None:
    assert "rank 3 is never right" in "\n".join(shell.lines("report", "night", "-o", "markdown"))


def test_following_a_pod_that_has_ended_ends_too(shell: Shell) -> None:
    assert shell.lines("logs", "night", "--node", "1", "--tail", "1", "--follow")


def test_what_is_planned_is_what_the_operator_made(cluster: SessionCluster, shell: Shell) -> None:
    manifest = cluster.get("disttest", "night", shell.namespace)
    assert manifest is not None
    plain = {key: manifest[key] for key in ("apiVersion", "kind", "spec")}
    planned = list(
        yaml.safe_load_all(_plan(shell, plain | {"metadata": {"name": "night", "namespace": shell.namespace}}))
    )
    unnamed = _plan(shell, plain | {"metadata": {"generateName": "another-", "namespace": shell.namespace}})
    assert len(cluster.kubectl("create", "--dry-run=server", "-f", "-", input=unnamed).splitlines()) == 2
    made = cluster.get("job", "night-a1", shell.namespace)
    assert made is not None
    assert _fixed(planned[1]) == _fixed(made)


def _plan(shell: Shell, document: dict[str, Any]) -> str:
    ended = shell.start("plan", "-f", "-", "--runner-image", "disttest-runner:dev", stdin=json.dumps(document))
    assert ended.code == 0, ended
    return ended.out


def _fixed(job: dict[str, Any]) -> tuple[Any, ...]:
    """What neither the API server fills in nor differs from run to run."""
    spec = job["spec"]["template"]["spec"]
    container = spec["containers"][0]
    env = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    plan = json.loads(env.pop("DISTTEST_PLAN")) | {"uid": ""}
    del env["DISTTEST_NONCE"]
    return env, plan, container["image"], container["command"], spec["volumes"][0]["name"], job["spec"]["completions"]


def test_doctor_finds_the_operator_and_no_gpus(shell: Shell) -> None:
    ended = shell.start("doctor", "-n", shell.namespace, "-o", "json")
    assert ended.code == 0, ended
    checks = {check["name"]: check for check in json.loads(ended.out)["checks"]}
    states = {name: check["state"] for name, check in checks.items()}
    assert states == {
        "API server": "ok",
        "DistTests": "ok",
        "Permissions": "ok",
        "Lease": "ok",
        "Operator": "warning",  # it is a process of this test
        "Runner image": "not checked",
        "Namespace": "ok",
        "Quota": "ok",
        "Limit ranges": "ok",
        "Nodes": "warning",
        "Kueue": "ok",
        "Prometheus": "ok",
    }, checks
    assert "nvidia.com/gpu: 0" in checks["Nodes"]["message"]


def test_a_user_who_may_view_sees_everything_and_creates_nothing(cluster: SessionCluster, shell: Shell) -> None:
    viewer = _user(cluster, shell, "viewer", role="view")
    assert viewer.lines("list", "-o", "name") == ["disttest.disttest.dev/night"]
    assert "[rank 3] this is rank 3" in viewer.lines("logs", "night", "--failed")
    described = "\n".join(viewer.lines("describe", "night"))
    assert "Not shown" not in described
    file = shell.directory / "mine.yaml"
    file.write_text(json.dumps(disttest(viewer.namespace, "mine")))
    refused = viewer("apply", "-f", str(file))
    assert (refused.code, refused.out) == (2, "")
    assert "forbidden" in refused.error
    checks = {
        check["name"]: check
        for check in json.loads(viewer("doctor", "-n", viewer.namespace, "-o", "json").out)["checks"]
    }
    assert (checks["Permissions"]["state"], checks["Nodes"]["state"]) == ("warning", "not checked")
    assert f"missing in namespace {viewer.namespace}: create disttests" in checks["Permissions"]["message"]


def test_a_user_without_permissions_gets_the_role_to_ask_for(cluster: SessionCluster, shell: Shell) -> None:
    unprivileged = _user(cluster, shell, "unprivileged")
    for words in (["list"], ["describe", "night"], ["logs", "night"]):
        refused = unprivileged(*words, "-n", unprivileged.namespace)
        assert (refused.code, refused.out) == (2, "")
        assert "Ask an administrator for the ClusterRole disttest-view" in refused.error
        assert refused.error.count("\n") == 1
    examined = unprivileged("doctor", "-n", unprivileged.namespace)
    assert examined.code == 30
    assert f"missing in namespace {unprivileged.namespace}: get disttests" in examined.out


def test_a_name_that_is_not_there_is_answered_with_the_one_that_is(shell: Shell) -> None:
    refused = shell("describe", "nigth", "-n", shell.namespace)  # codespell:ignore nigth
    assert refused == EndedCommand(
        code=2,
        out="",
        error=f"disttest: DistTest 'nigth' does not exist in namespace {shell.namespace}. Did you mean 'night'?\n",
    )


def test_when_the_pods_are_gone_the_report_says_what_the_rank_had_to_say(cluster: SessionCluster, shell: Shell) -> None:
    """From here on tests delete what those before have looked at."""
    cluster.kubectl(
        "delete", "pods", "-n", shell.namespace, "-l", "disttest.dev/name=night", "--force", "--grace-period=0"
    )
    ended = shell("logs", "night", "--rank", "3", "-n", shell.namespace)
    assert ended.code == 0, ended
    assert "the pods of attempt 1 of night and their logs no longer exist" in ended.error
    assert [line for line in ended.out.splitlines() if line.startswith("[rank 3] ") and "never right" in line], (
        ended.out
    )


def test_nights_are_compared_also_when_the_first_is_gone(cluster: SessionCluster, shell: Shell) -> None:
    cluster.apply(config_map(shell.namespace, "worse", SUITE.replace("pass", "assert 0, 'it broke'")))
    suite = {"name": "own", "configMap": {"name": "worse"}}
    run = disttest(shell.namespace, "next", suites=[suite], series="nights", retries={"flaky": 0})
    assert shell.start("apply", "-f", "-", "--wait", stdin=json.dumps(run)).code == 10
    nights = [line.split() for line in shell.lines("history", "nights")]
    assert [row[2] for row in nights if "TestsFailed" in row] == ["next", "night"]
    assert "nights" in shell.lines("history", "-o", "name")[0]

    for names in (("night", "next"), ("--series", "nights"), ("nights@-1", "nights@0")):
        ended = shell("compare", *names, "-n", shell.namespace)
        assert ended.code == 10, ended
        assert "newly failing: 1\n" in ended.out
        assert "test_good" in ended.out.partition("newly failing: 1\n")[2]
        assert "still failing: 1\n" in ended.out
        if names[0] == "night":
            cluster.kubectl("delete", "dt", "night", "-n", shell.namespace, "--cascade=foreground")
    assert shell("compare", "nights@-1", "nights@-1", "-n", shell.namespace).code == 0
    assert "rank 3 is never right" in "\n".join(shell.lines("report", "night"))
    page = shell.directory / "night.html"
    assert shell("report", "night", "-o", f"html={page}", "-n", shell.namespace).code == 0
    assert "rank 3 is never right" in page.read_text()


def _user(cluster: SessionCluster, shell: Shell, name: str, *, role: str = "") -> Shell:
    cluster.kubectl("create", "serviceaccount", name, "-n", shell.namespace)
    if role:
        binding = ("create", "rolebinding", name, "-n", shell.namespace, f"--clusterrole={role}")
        cluster.kubectl(*binding, f"--serviceaccount={shell.namespace}:{name}")
    kubeconfig = cluster.kubeconfig_for(shell.namespace, name)
    return Shell(kubeconfig=kubeconfig, namespace=shell.namespace, directory=shell.directory)
