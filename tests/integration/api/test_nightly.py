"""The CronJob controller starts a pod that creates a DistTest, under an account that may do nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.support.api import MANIFESTS, Api
from tests.support.cluster import OPERATOR_IMAGE, Cluster, Manifest

NAME = "disttest-nightly"
PATIENCE_SECONDS = 60


def installed(cluster: Cluster, namespace: str) -> list[Manifest]:
    """manifests/nightly in another namespace, with an image of this cluster."""
    made = []
    for entry in yaml.safe_load_all(cluster.kubectl("kustomize", str(MANIFESTS / "nightly"))):
        if entry["kind"] == "Namespace":
            continue
        entry["metadata"]["namespace"] = namespace
        for subject in entry.get("subjects", ()):
            subject["namespace"] = namespace
        if entry["kind"] == "CronJob":
            entry["spec"] |= {"suspend": True, "schedule": "* * * * *"}
            [container] = entry["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
            container["image"] = OPERATOR_IMAGE
        made.append(entry)
    return made


@pytest.fixture
def nightly(cluster: Cluster, api: Api) -> Iterator[str]:
    with cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        cluster.apply(installed(cluster, namespace))
        yield namespace


def test_a_night_creates_one_disttest(nightly: str, cluster: Cluster, api: Api) -> None:
    path = f"/apis/batch/v1/namespaces/{nightly}/cronjobs/{NAME}"
    # As if the last minute's run had been missed: the controller makes up for it at once.
    missed = (datetime.now(UTC) - timedelta(seconds=61)).isoformat(timespec="seconds")
    status, answer = api.patch(f"{path}/status", {"status": {"lastScheduleTime": missed}})
    assert status == 200, answer
    status, answer = api.patch(path, {"spec": {"suspend": False}})
    assert status == 200, answer

    runs = cluster.wait_until("a DistTest is there", lambda: cluster.find("disttests", nightly), PATIENCE_SECONDS)
    api.patch(path, {"spec": {"suspend": True}})

    assert runs[0]["metadata"]["name"].startswith("nightly-1x8-")
    assert runs[0]["spec"]["series"] == "nightly-1x8"

    def ended() -> list[Manifest]:
        return [job for job in cluster.find("jobs", nightly, "!disttest.dev/name") if job["status"].get("succeeded")]

    [job] = cluster.wait_until("the submitting Job has succeeded", ended, PATIENCE_SECONDS)
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    log = cluster.kubectl("logs", f"job/{job['metadata']['name']}", "-n", nightly)
    assert log.strip() == runs[0]["metadata"]["name"]


def test_a_refused_manifest_ends_in_one_line_that_says_why(nightly: str, cluster: Cluster) -> None:
    [wrong] = [entry for entry in installed(cluster, nightly) if entry["kind"] == "ConfigMap"]
    wrong["metadata"]["name"] = "wrong"
    wrong["data"]["nightly.yaml"] = wrong["data"]["nightly.yaml"].replace("gpusPerNode: 8", "gpusPerNode: 80")
    [cron_job] = [entry for entry in installed(cluster, nightly) if entry["kind"] == "CronJob"]
    job_spec = cron_job["spec"]["jobTemplate"]["spec"] | {"backoffLimit": 0}
    job_spec["template"]["spec"]["volumes"][0]["configMap"]["name"] = "wrong"
    metadata = {"name": "wrong", "namespace": nightly}
    cluster.apply([wrong, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec}])

    def failed() -> Manifest | None:
        pods = cluster.find("pods", nightly, "batch.kubernetes.io/job-name=wrong")
        return next((pod for pod in pods if pod["status"]["phase"] == "Failed"), None)

    pod = cluster.wait_until("the pod has failed", failed, PATIENCE_SECONDS)
    end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert end["exitCode"] == 2
    assert len(end["message"].strip().splitlines()) == 1
    assert "spec.gpusPerNode" in end["message"]
    assert "less than or equal to 16" in end["message"]
