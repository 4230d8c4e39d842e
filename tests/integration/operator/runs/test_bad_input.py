"""Runs that are not possible end soon, with a verdict, a reason and the next step."""

from typing import Any

import pytest

from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import OperatorProcess, disttest, finished, ledger, run_counts

CASES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "unknown-suite": (
        {"suites": [{"name": "colectives"}]},
        "Errored",
        "UnknownSuite",
        "Its suites: c10d-spawn, collectives, data-parallel",
    ),
    "config-map": (
        {"suites": [{"name": "mine", "configMap": {"name": "absent"}}]},
        *("Errored", "ReferenceNotFound", "Create it, then the DistTest again"),
    ),
    "service-account": (
        {"template": {"spec": {"serviceAccountName": "absent"}}},
        *("Errored", "ReferenceNotFound", "ServiceAccount 'absent' does not exist in namespace"),
    ),
    "not-allowed": (
        {"template": {"spec": {"serviceAccountName": "builder"}}},
        *("Errored", "InvalidSpec", "/service-account:builder (docs/operating/security.md)"),
    ),
    "claim": (
        {"artifacts": {"persistentVolumeClaim": "absent"}},
        *("Errored", "ReferenceNotFound", "PersistentVolumeClaim 'absent' does not exist in namespace"),
    ),
    "plan": (
        {"suites": [{"name": "collectives", "env": [{"name": f"V{n}", "value": "x" * 4096} for n in range(31)]}]},
        *("Errored", "InvalidSpec", "Use globs instead of long lists"),
    ),
    "image": ({"image": "registry.invalid/no-such-image:1"}, "Errored", "ImageUnavailable", "Check spec.image"),
    "gpus": ({"gpusPerNode": 16}, "Errored", "InsufficientGPUs", "Decrease spec.nodes or spec.gpusPerNode"),
    "queue": (
        {
            "template": {"spec": {"nodeSelector": {"no-such": "label"}}},
            "timeouts": {"queueSeconds": 5, "rendezvousSeconds": 5, "caseSeconds": 5, "runSeconds": 5},
        },
        *("InfraFailed", "GangTimeout", "spec.timeouts.queueSeconds"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_ends_with_a_reason_and_advice(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str, name: str
) -> None:
    spec, verdict, reason, words = CASES[name]
    cluster.apply(disttest(namespace, name, **spec))
    status = finished(cluster, namespace, name, timeout_seconds=25)
    assert (status["verdict"], status["reason"]) == (verdict, reason), status
    assert words in status["message"]
    failed = next(condition for condition in status["conditions"] if condition["type"] == "Failed")
    assert (failed["status"], failed["reason"]) == ("True", reason)
    assert run_counts(ledger(cluster, namespace, "adhoc")) == {(verdict, reason): 1}
    cluster.wait_until("no pod is left waiting", lambda: not pending(cluster, namespace), 15)


def test_pods_that_the_namespace_refuses_end_the_run_with_the_refusal(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": namespace},
        "spec": {"hard": {"pods": "0"}},
    }
    cluster.apply(quota)
    cluster.wait_until(
        "the quota is in force", lambda: (cluster.get("quota", "none", namespace) or {}).get("status"), 10
    )
    cluster.apply(disttest(namespace, "refused"))
    status = finished(cluster, namespace, "refused", timeout_seconds=25)
    assert (status["verdict"], status["reason"]) == ("Errored", "PodsForbidden"), status
    assert "exceeded quota: none" in status["message"]


def test_a_service_with_the_same_name_and_another_owner_is_named_and_not_changed(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken-a1", "namespace": namespace},
        "spec": {"clusterIP": "None"},
    }
    cluster.apply(service)
    cluster.apply(disttest(namespace, "taken"))
    status = finished(cluster, namespace, "taken", timeout_seconds=25)
    assert (status["verdict"], status["reason"]) == ("Errored", "NameConflict"), status
    assert "Service 'taken-a1'" in status["message"]
    assert cluster.get("service", "taken-a1", namespace) is not None


def pending(cluster: SessionCluster, namespace: str) -> list[dict[str, Any]]:
    return [pod for pod in cluster.find("pods", namespace) if pod["status"]["phase"] in {"Pending", "Running"}]
