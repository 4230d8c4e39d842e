"""CronJobs on the API server, and their metrics."""

import functools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_operator.core.schedule.expected_runs import cron_job
from tests.support.clusters.cluster import KubectlError, Manifest, SessionCluster
from tests.support.operators.operator import OperatorProcess, StartOperator, disttest, finished, write_ledger
from tests.support.paths import ROOT

OVERLAY = ROOT / "manifests/overlays/namespaced"
OWN, RUNS = "disttest-before", "disttest-before-runs"
PREFIX = "disttest_schedule_"


def a_cron_job(namespace: str, name: str = "nightly", **spec: Any) -> Manifest:
    """Nothing runs: its time is in the small hours of 29 February."""
    container = {"name": "submit", "image": "none"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"disttest.dev/series": "nightly-1x8"}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"schedule": "0 1 29 2 *", "timeZone": "Europe/Berlin", "jobTemplate": {"spec": {"template": pod}}}
        | spec,
    }


def exposed(operator: OperatorProcess, namespace: str) -> dict[str, float]:
    """The schedule metrics of a namespace, by the short names of the families."""
    labels = f'{{namespace="{namespace}",series="nightly-1x8"}}'
    return {
        name.removeprefix(PREFIX).removesuffix(labels): value
        for name, value in operator.metrics().items()
        if name.startswith(PREFIX) and name.endswith(labels)
    }


def becomes(cluster: SessionCluster, operator: OperatorProcess, namespace: str, names: set[str]) -> dict[str, float]:
    """Wait until exactly these are exposed."""

    def probe() -> dict[str, float] | None:
        seen = exposed(operator, namespace)
        return (seen or {"nothing": 1.0}) if set(seen) == names else None

    return cluster.wait_until(f"of schedules {sorted(names)} are exposed", probe)


ACTIVE = {"next_timestamp_seconds", "interval_seconds", "suspended", "readable"}
HELD = {"interval_seconds", "suspended", "readable"}


def test_a_labelled_cronjob_is_exposed_until_it_is_suspended_or_deleted(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(a_cron_job(namespace))
    seen = becomes(cluster, operator, namespace, ACTIVE)
    next_day = time.gmtime(seen["next_timestamp_seconds"])
    assert (next_day.tm_mon, next_day.tm_mday, next_day.tm_hour) == (2, 29, 0), "one o'clock in Berlin"
    assert seen["next_timestamp_seconds"] > time.time()
    assert (seen["suspended"], seen["readable"]) == (0, 1)

    cluster.apply(a_cron_job(namespace, suspend=True))
    assert becomes(cluster, operator, namespace, HELD)["suspended"] == 1

    cluster.kubectl("delete", "cronjob", "nightly", "--namespace", namespace)
    becomes(cluster, operator, namespace, set())


def test_expected_runs_are_counted_from_a_resumption_and_not_from_another_image_or_a_status(
    cluster: SessionCluster, namespace: str
) -> None:
    """By the managed fields as a real API server keeps them, to the second."""
    cluster.apply(a_cron_job(namespace))

    def since() -> datetime:
        path = f"/apis/batch/v1/namespaces/{namespace}/cronjobs/nightly"
        view = cron_job(json.loads(cluster.kubectl("get", "--raw", path)))  # else kubectl hides managed fields
        assert view
        return view.expects_since

    def a_second_later() -> datetime:
        started = datetime.now(UTC)
        cluster.wait_until("a second is over", lambda: datetime.now(UTC) - started > timedelta(seconds=1.1))
        return datetime.now(UTC)

    made = since()
    a_second_later()
    status = json.dumps({"status": {"lastScheduleTime": "2024-02-29T00:00:00Z"}})
    patch = ("patch", "cronjob", "nightly", "--namespace", namespace, "--type=merge")
    cluster.kubectl(*patch, "--subresource=status", "--patch", status)
    assert since() == made, "the controller notes when it last ran"
    cluster.kubectl(*patch, "--field-manager=queue", "--patch", '{"spec": {"concurrencyPolicy": "Forbid"}}')
    assert since() == made, "another writer, of other fields"
    for is_suspended in (True, False):
        now = a_second_later().replace(microsecond=0)
        cluster.kubectl(*patch, "--field-manager=me", "--patch", json.dumps({"spec": {"suspend": is_suspended}}))
        assert since() >= now
    before = since()
    a_second_later()
    cluster.kubectl(*patch, "--field-manager=me", "--patch", '{"spec": {"suspend": null}}')
    assert since() == before, "not suspended is what it was"


@pytest.mark.parametrize(
    "spec",
    [{"timeZone": "Mars/Olympus"}, {"schedule": "0 1 L * *"}, {"schedule": "TZ=Europe/Berlin 0 1 * * *"}],
    ids=["zone", "schedule", "zone in the schedule"],
)
def test_what_would_not_be_understood_cannot_be_made(
    cluster: SessionCluster, namespace: str, spec: dict[str, str]
) -> None:
    with pytest.raises(KubectlError, match="Invalid value"):
        cluster.apply(a_cron_job(namespace, **spec))


@pytest.fixture
def rights_of_before(cluster: SessionCluster, installed: Path) -> Iterator[Path]:
    """Of an operator that was upgraded without its new rights: Roles as in the overlay, without CronJobs."""
    rendered = cluster.kubectl("kustomize", str(OVERLAY))
    for manifest in yaml.safe_load_all(rendered.replace("disttest-system", OWN).replace("disttest-runs", RUNS)):
        if manifest["kind"] not in {"Namespace", "ServiceAccount", "Role", "RoleBinding"}:
            continue
        if manifest["kind"] == "Role":
            manifest["rules"] = [rule for rule in manifest["rules"] if "cronjobs" not in rule["resources"]]
        cluster.apply(manifest)
    is_there = functools.partial(cluster.get, "serviceaccount", "default", RUNS)
    cluster.wait_until(f"default ServiceAccount in {RUNS}", is_there)
    yield cluster.kubeconfig_for(OWN, "disttest-operator")
    for namespace in (OWN, RUNS):
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def test_without_permission_for_cronjobs_runs_get_their_verdict_and_no_schedule_is_exposed(
    cluster: SessionCluster, start_operator: StartOperator, rights_of_before: Path
) -> None:
    flags = (f"--namespaces={RUNS}", f"--lease-namespace={OWN}", "--log-format=json")
    with start_operator(*flags, log="before.log", kubeconfig=rights_of_before) as operator:
        cluster.apply(a_cron_job(RUNS, suspend=True))
        suites = [{"name": "collectives", "select": "barrier"}]
        cluster.apply(disttest(RUNS, "cpu", nodes=1, ranksPerNode=1, suites=suites))
        status = finished(cluster, RUNS, "cpu", timeout_seconds=120)
        assert status["verdict"] == "Passed", status["message"]
        assert not any(name.startswith(PREFIX) for name in operator.metrics())
        assert operator.get("/healthz") == (200, "ok")
        said = [json.loads(line) for line in operator.log.read_text().splitlines()]
        [why] = [entry["message"] for entry in said if "CronJobs" in entry["message"]]
        assert why.startswith("schedules are unknown without permission to list CronJobs (manifests/rbac/runs): ")
        assert "403" in why


def a_ledger(cluster: SessionCluster, namespace: str, name: str, last: str) -> None:
    """As of a series whose last run finished then."""
    write_ledger(cluster, namespace, name, runCount=3, lastVerdict="Passed", lastCompletionTime=last)


def test_a_ledger_of_long_ago_goes_and_that_of_a_suspended_cronjob_stays(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.apply(a_cron_job(namespace, suspend=True))
    becomes(cluster, operator, namespace, HELD)
    a_ledger(cluster, namespace, "nightly-1x8", "2020-01-01T00:00:00Z")
    a_ledger(cluster, namespace, "recent", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    a_ledger(cluster, namespace, "forgotten", "2020-01-01T00:00:00Z")
    cluster.wait_until(
        "the ledger is gone", lambda: cluster.get("disttestseries", "forgotten", namespace) is None, timeout_seconds=20
    )
    names = {body["metadata"]["name"] for body in cluster.find("disttestseries", namespace)}
    assert names == {"nightly-1x8", "recent"}

    def logged() -> list[str]:
        return [line for line in operator.log.read_text().splitlines() if "deleted its ledger" in line]

    cluster.wait_until("the deletion is logged", logged, timeout_seconds=20)
    [line] = logged()
    assert f"series {namespace}/forgotten: deleted its ledger of 3 runs" in line
