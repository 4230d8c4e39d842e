"""What a DistTest asks of its ranks beyond running cases: other tries, variables, some cases only, files to keep."""

import pathlib

import pytest

from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.operators.operator import OperatorProcess, config_map, disttest, events_with, finished

# Each rank leaves its mark in the pod's own /tmp, so that its second try can see that there was a first.
FLAKY = """
import os
import pathlib

def test_once_bad(gang):
    mark = pathlib.Path(f"/tmp/seen-{gang.rank}")
    is_first = not mark.exists()
    mark.touch()
    assert not (is_first and gang.rank == 3), "not today"

def test_good():
    pass

def test_variables():
    assert (os.environ["OF_ALL"], os.environ["OF_BOTH"], os.environ["DOLLARS"]) == ("all", "suite", "$(HOME) $$")
"""
KEEPING = """
import pathlib

def test_keeps_something(gang):
    pathlib.Path(f"/artifacts/from-{gang.rank}").write_text("kept")
"""


def test_a_case_that_passes_at_its_second_try_is_flaky_and_the_run_passes(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    variables = [{"name": "OF_BOTH", "value": "suite"}, {"name": "DOLLARS", "value": "$(HOME) $$"}]
    suite = {"name": "own", "configMap": {"name": "own"}, "env": variables}
    common = [{"name": "OF_ALL", "value": "all"}, {"name": "OF_BOTH", "value": "all"}]
    cluster.apply(config_map(namespace, "own", FLAKY))
    cluster.apply(disttest(namespace, "flaky", suites=[suite], env=common, retries={"flaky": 1}))
    status = finished(cluster, namespace, "flaky", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status
    assert (status["cases"]["total"], status["cases"]["passed"], status["cases"]["flaky"]) == (3, 3, 1)
    [failure] = status["failures"]
    assert failure["case"].endswith("::test_once_bad")
    assert (failure["outcome"], failure["flaky"], failure["ranks"]) == ("passed", True, [3])
    assert failure["message"].startswith("failed at first: ")
    [note] = [note for reason, note in events_with("Passed", cluster, namespace) if reason == "Passed"]
    assert note.startswith("AllCasesPassed, 1 flaky: ")


def test_without_retries_the_same_case_is_red(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    variables = [{"name": "OF_ALL", "value": "all"}, {"name": "OF_BOTH", "value": "suite"}]
    suite = {
        "name": "own",
        "configMap": {"name": "own"},
        "env": [*variables, {"name": "DOLLARS", "value": "$(HOME) $$"}],
    }
    cluster.apply(config_map(namespace, "own", FLAKY))
    cluster.apply(disttest(namespace, "strict", suites=[suite], retries={"flaky": 0}))
    status = finished(cluster, namespace, "strict", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("TestsFailed", "CasesFailed"), status
    assert (status["cases"]["failed"], status["cases"]["passed"], status["cases"]["flaky"]) == (1, 2, 0)
    assert "flaky" not in status["failures"][0]


def test_a_case_that_is_known_to_fail_runs_and_leaves_the_run_green(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    variables = [{"name": "OF_ALL", "value": "all"}, {"name": "OF_BOTH", "value": "suite"}]
    known = config_map(namespace, "known", "") | {"data": {"own": "# tickets\n*::test_once_bad\n*::test_variables\n"}}
    cluster.apply([config_map(namespace, "own", FLAKY), known])
    suite = {"name": "own", "configMap": {"name": "own"}, "env": variables}
    cluster.apply(disttest(namespace, "known", suites=[suite], quarantine={"configMap": {"name": "known"}}))
    status = finished(cluster, namespace, "known", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status
    assert (status["cases"]["passed"], status["cases"]["failed"], status["cases"]["quarantined"]) == (1, 2, 2)
    assert [failure["quarantined"] for failure in status["failures"]] == [True, True]
    [complete] = [one for one in status["conditions"] if one["type"] == "Complete"]
    assert "2 quarantined failures" in complete["message"]
    ledger = cluster.get("disttestseries", "adhoc", namespace) or {}
    assert {row["streak"] for row in ledger["status"]["failing"]} == {1}


def test_only_chosen_cases_run_whatever_their_source(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(config_map(namespace, "own", FLAKY))
    own = {"name": "own", "configMap": {"name": "own"}, "select": "good and not variables"}
    builtin = {"name": "collectives", "select": "barrier"}
    cluster.apply(disttest(namespace, "chosen", suites=[own, builtin]))
    status = finished(cluster, namespace, "chosen", timeout_seconds=90)
    assert status["verdict"] == "Passed", status
    totals = {suite["name"]: suite["cases"]["total"] for suite in status["suites"]}
    assert totals["own"] == 1
    assert 1 <= totals["collectives"] < 5


def test_a_choice_that_leaves_no_case_is_an_error(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(disttest(namespace, "none", suites=[{"name": "collectives", "select": "no_such_case"}]))
    status = finished(cluster, namespace, "none", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("Errored", "NoCasesCollected"), status


def test_files_that_the_image_lacks_are_an_error_that_names_them(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(disttest(namespace, "lacking", suites=[{"name": "up", "files": ["test/no_such_*.py"]}]))
    status = finished(cluster, namespace, "lacking", timeout_seconds=90)
    assert (status["verdict"], status["reason"]) == ("Errored", "CollectionFailed"), status
    assert "no file below /opt/pytorch matches 'test/no_such_*.py'" in status["message"]


@pytest.fixture
def claim(cluster: SessionCluster, namespace: str, tmp_path: pathlib.Path) -> pathlib.Path:
    """A bound claim `dumps`; gives the folder behind it."""
    if cluster.dev is None:
        pytest.skip("the folder behind a claim is visible only in a local test cluster; unset KUBECONFIG")
    spec: Manifest = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": spec | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(tmp_path)}},
    }
    wanted = {"volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}}
    dumps = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "dumps", "namespace": namespace},
        "spec": spec | wanted,
    }
    cluster.apply([volume, dumps])

    def is_bound() -> bool:
        found = cluster.get("persistentvolumeclaim", "dumps", namespace) or {}
        return bool(found.get("status", {}).get("phase") == "Bound")

    cluster.wait_until("the claim is bound", is_bound, 20)
    return tmp_path


def test_every_pod_can_write_to_the_claim(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, claim: pathlib.Path
) -> None:
    cluster.apply(config_map(namespace, "keeping", KEEPING))
    suite = {"name": "keeping", "configMap": {"name": "keeping"}}
    cluster.apply(disttest(namespace, "keeper", suites=[suite], artifacts={"persistentVolumeClaim": "dumps"}))
    status = finished(cluster, namespace, "keeper", timeout_seconds=90)
    assert status["verdict"] == "Passed", status
    kept = {path.name for path in claim.iterdir() if path.read_text() == "kept"}
    assert kept == {f"from-{rank}" for rank in range(4)}
