"""Nights on a real cluster: the CronJob controller's pods, one run each, waited for under an account of few rights."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from disttest_cli.input import applying
from tests.support import patience
from tests.support.clusters.api import Api
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.operators import nightly, operator

PATIENCE_SECONDS = 60
RUN_SECONDS = 120
RED = "def test_red():\n    raise AssertionError('as it should')\n"


@dataclass(frozen=True, slots=True)
class Nights:
    """An overlay of manifests/nightly, applied to a separate namespace."""

    cluster: SessionCluster
    api: Api
    namespace: str
    overlay: Path

    def begin(self, series: str) -> None:
        """As if the last minute's night had been missed: the controller makes up for it at once."""
        path = f"/apis/batch/v1/namespaces/{self.namespace}/cronjobs/{series}"
        missed = (datetime.now(UTC) - timedelta(seconds=61)).isoformat(timespec="seconds")
        status, answer = self.api.patch(f"{path}/status", {"status": {"lastScheduleTime": missed}})
        assert status == 200, answer
        status, answer = self.api.patch(path, {"spec": {"suspend": False}})
        assert status == 200, answer
        self.cluster.wait_until("the nightly run has started", lambda: self.jobs(series), PATIENCE_SECONDS)
        self.api.patch(path, {"spec": {"suspend": True}})

    def by_hand(self, series: str, name: str) -> None:
        self.cluster.kubectl("create", "job", name, f"--from=cronjob/{series}", "-n", self.namespace)

    def jobs(self, series: str) -> list[Manifest]:
        selector = f"disttest.dev/series={series},!disttest.dev/name"
        return self.cluster.find("jobs", self.namespace, selector)

    def pods(self, job: str) -> list[Manifest]:
        return self.cluster.find("pods", self.namespace, f"batch.kubernetes.io/job-name={job}")

    def log(self, pod: Manifest) -> str:
        return self.cluster.kubectl("logs", pod["metadata"]["name"], "-n", self.namespace, check=False)

    def runs(self, series: str) -> list[Manifest]:
        return [run for run in self.cluster.find("disttests", self.namespace) if run["spec"]["series"] == series]

    def waiting_pod(self, job: str, *, words: str, besides: str = "") -> Manifest:
        """A pod of the Job that has said this."""

        def probe() -> Manifest | None:
            pods = [pod for pod in self.pods(job) if pod["metadata"]["name"] != besides]
            return next((pod for pod in pods if words in self.log(pod)), None)

        return self.cluster.wait_until(f"a pod of {job} says {words!r}", probe, PATIENCE_SECONDS)

    def ended(self, job: str, condition: str) -> None:
        self.cluster.kubectl(
            "wait",
            "-n",
            self.namespace,
            f"job/{job}",
            f"--for=condition={condition}",
            f"--timeout={patience.whole(RUN_SECONDS)}s",
        )

    def exit_codes(self, job: str) -> list[int]:
        pods = sorted(self.pods(job), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        return [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in pods]

    def drift(self) -> str:
        """What the overlay would change, in the words of `kubectl diff`."""
        return self.cluster.kubectl("diff", "-k", str(self.overlay), check=False)


@pytest.fixture(scope="module")
def nights(cluster: SessionCluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    folder = tmp_path_factory.mktemp("nightly")
    tests = {
        "nightly-1x8": nightly.disttest("nightly-1x8"),
        "nightly-2x8": nightly.disttest(
            "nightly-2x8", suspend=True, suites=[{"name": "own", "configMap": {"name": "own"}}]
        ),
        "nightly-4x8": nightly.disttest("nightly-4x8", gpusPerNode=80),
    }
    kubeconfig = operator.install(cluster)
    with (
        cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace,
        operator.running(cluster, kubeconfig, folder / "operator.log", "--fixed-nodes", "--namespaces", namespace),
    ):
        overlay = nightly.write_overlay(folder, namespace, tests, reads=("own",))
        cluster.kubectl("apply", "-k", str(overlay))
        cluster.apply(operator.config_map(namespace, "own", RED))
        yield Nights(cluster, api, namespace, overlay)


def test_a_night_is_one_run_that_its_pod_waits_for_and_nothing_drifts(nights: Nights) -> None:
    nights.begin("nightly-1x8")
    [job] = nights.jobs("nightly-1x8")
    name = job["metadata"]["name"]
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    nights.waiting_pod(name, words="for its verdict")
    nights.ended(name, "Complete")

    [run] = nights.runs("nightly-1x8")
    assert run["metadata"]["name"] == name, "a function of the scheduled time"
    [job] = nights.jobs("nightly-1x8")
    assert job["status"]["completionTime"] >= run["status"]["completionTime"], "or Forbid would mean nothing"
    [pod] = nights.pods(name)
    log = nights.log(pod).splitlines()
    most = applying.budget_seconds(run["spec"])
    assert log[0] == f"{name}: created in namespace {nights.namespace}; waiting up to {most} s for its verdict"
    assert log[-1].startswith(f"{name}: Passed (AllCasesPassed): ")
    assert f"{name}: Running" in log
    assert nights.exit_codes(name) == [0]
    assert nights.drift() == "", "after a night too"


def test_a_pod_that_is_deleted_is_replaced_by_one_that_waits_for_the_same_run(nights: Nights) -> None:
    nights.by_hand("nightly-2x8", "again")
    first = nights.waiting_pod("again", words="spec.suspend is true")
    nights.cluster.kubectl("delete", "pod", first["metadata"]["name"], "-n", nights.namespace)
    second = nights.waiting_pod("again", words="spec.suspend is true", besides=first["metadata"]["name"])
    assert "again: exists since" in nights.log(second).splitlines()[0]
    [run] = nights.runs("nightly-2x8")

    path = f"/apis/disttest.dev/v1alpha1/namespaces/{nights.namespace}/disttests/again"
    status, answer = nights.api.patch(path, {"spec": {"suspend": False}})
    assert status == 200, answer
    nights.ended("again", "Failed")
    assert [run["metadata"]["uid"] for run in nights.runs("nightly-2x8")] == [run["metadata"]["uid"]]
    assert nights.exit_codes("again") == [10], "red is final: no third pod looks again"
    log = nights.log(second).splitlines()
    assert "again: failed: own: test_own.py::test_red" in log[-5]
    assert "for details, run: disttest describe again" in log[-2]
    assert log[-1].startswith("again: TestsFailed (CasesFailed): ")


def test_a_refused_manifest_ends_in_one_line_that_says_why(nights: Nights) -> None:
    nights.by_hand("nightly-4x8", "wrong")
    nights.ended("wrong", "Failed")
    assert nights.exit_codes("wrong") == [2]
    [pod] = nights.pods("wrong")
    message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert len(message.strip().splitlines()) == 1
    assert "spec.gpusPerNode" in message
    assert "must be an integer from 0 to 16, not 80" in message
    assert nights.runs("nightly-4x8") == []


def test_a_night_that_names_a_configmap_it_may_not_get_fails_with_that_reason_and_is_not_retried(
    nights: Nights,
) -> None:
    rule = json.dumps([{"op": "remove", "path": "/rules/1"}])
    nights.cluster.kubectl("patch", "role", "disttest-nightly", "-n", nights.namespace, "--type=json", "-p", rule)
    try:
        nights.by_hand("nightly-2x8", "forbidden")
        nights.ended("forbidden", "Failed")
    finally:
        nights.cluster.kubectl("apply", "-k", str(nights.overlay))
    assert nights.exit_codes("forbidden") == [2]
    [pod] = nights.pods("forbidden")
    message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    account = f"system:serviceaccount:{nights.namespace}:disttest-nightly"
    assert f"spec.suites[].configMap: {account} has no permission to get ConfigMap own; grant it" in message
    assert "disttest-edit" not in message, "which would not help"
