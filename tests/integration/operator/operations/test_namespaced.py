"""An operator that has Roles only, exactly those of manifests/overlays/namespaced, in two namespaces."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.clusters.cluster import SessionCluster
from tests.support.monitoring import scraping
from tests.support.operators.operator import (
    OperatorProcess,
    StartOperator,
    disttest,
    events_with,
    finished,
    ledger,
    run_counts,
)
from tests.support.paths import ROOT

OVERLAY = ROOT / "manifests/overlays/namespaced"
METRICS, ROLE = OVERLAY.parents[1] / "rbac/metrics", "disttest-operator-metrics"
OWN = "disttest-namespaced"  # instead of disttest-system, whose ServiceAccount has the ClusterRole
RUNS, MORE = "disttest-runs", "disttest-more"
USER = f"system:serviceaccount:{OWN}:disttest-operator"
QUICK = {"name": "collectives", "select": "barrier"}
KINDS = {"Namespace", "ServiceAccount", "Role", "RoleBinding"}


@pytest.fixture(scope="module")
def kubeconfig(cluster: SessionCluster, installed: Path) -> Path:
    """Of a ServiceAccount that has the Roles of the overlay; of the namespace for runs there is a copy."""
    rendered = cluster.kubectl("kustomize", str(OVERLAY)).replace("disttest-system", OWN)
    for text in (rendered, rendered.replace(RUNS, MORE)):
        for manifest in yaml.safe_load_all(text):
            if manifest["kind"] in KINDS:
                cluster.apply(manifest)
    for namespace in (RUNS, MORE):
        cluster.wait_until(
            f"default ServiceAccount in {namespace}",
            lambda where=namespace: cluster.get("serviceaccount", "default", where),  # type: ignore[misc]
        )
    return cluster.kubeconfig_for(OWN, "disttest-operator")


@pytest.fixture(scope="module")
def namespaced(start_operator: StartOperator, kubeconfig: Path) -> Iterator[OperatorProcess]:
    flags = (
        *(f"--namespaces={RUNS},{MORE}", f"--lease-namespace={OWN}", "--log-format=json"),
        *("--queue-seconds=4", "--run-seconds=90", "--workers=2", "--fixed-nodes", "--metrics-insecure=false"),
    )
    with start_operator(*flags, log="namespaced.log", kubeconfig=kubeconfig) as process:
        yield process


def may(cluster: SessionCluster, verb: str, what: str, *where: str) -> bool:
    return cluster.kubectl("auth", "can-i", verb, what, f"--as={USER}", *where, check=False).startswith("yes")


def test_it_has_rights_in_its_namespaces_only(cluster: SessionCluster, kubeconfig: Path) -> None:
    assert may(cluster, "create", "jobs", "--namespace", RUNS)
    assert may(cluster, "update", "disttests.disttest.dev", "--subresource=finalizers", "--namespace", MORE)
    assert may(cluster, "update", "leases/disttest-operator", "--namespace", OWN)
    assert not may(cluster, "list", "nodes")
    assert not may(cluster, "list", "disttests", "--all-namespaces")
    assert not may(cluster, "create", "jobs", "--namespace", OWN)
    assert not may(cluster, "update", "leases/disttest-operator", "--namespace", RUNS)
    assert not may(cluster, "update", "leases", "--namespace", OWN), "but its own"


def test_runs_of_its_namespaces_come_to_their_verdict_and_others_are_left_alone(
    cluster: SessionCluster, namespaced: OperatorProcess
) -> None:
    with cluster.namespace() as foreign:
        for namespace in (foreign, RUNS, MORE):
            cluster.apply(disttest(namespace, "cpu", series="nightly", suites=[QUICK], ranksPerNode=1))
        for namespace in (RUNS, MORE):
            status = finished(cluster, namespace, "cpu", timeout_seconds=120)
            assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status["message"]
            assert cluster.get("configmap", status["report"]["configMap"], namespace)
            assert run_counts(ledger(cluster, namespace, "nightly")) == {("Passed", "AllCasesPassed"): 1}
            assert events_with("Passed", cluster, namespace), "events are written too"
        assert "status" not in (cluster.get("disttest", "cpu", foreign) or {})
    assert namespaced.get("/healthz") == (200, "ok")


def test_of_nodes_that_it_may_not_see_nothing_is_claimed_and_its_own_deadline_ends_the_wait(
    cluster: SessionCluster, namespaced: OperatorProcess
) -> None:
    """The DistTests leave queueSeconds to the operator, whose --fixed-nodes would say InsufficientGPUs at once."""
    for name in ("gpus", "more-gpus"):
        cluster.apply(disttest(RUNS, name, gpusPerNode=8, ranksPerNode=8, timeouts={"rendezvousSeconds": 60}))
    for name in ("gpus", "more-gpus"):
        status = finished(cluster, RUNS, name)
        assert (status["verdict"], status["reason"]) == ("InfraFailed", "GangTimeout")
        assert "queueSeconds (4)" in status["message"]
    said = [json.loads(line) for line in namespaced.log.read_text().splitlines()]
    [warning] = [entry for entry in said if entry["message"].startswith("nodes cannot be listed")]
    assert (warning["level"], warning["logger"]) == ("warning", "disttest_operator.controller.lookups")
    assert "403" in warning["message"]
    others = [entry for entry in said if entry["level"] in {"warning", "error"} and entry is not warning]
    assert others == [], "no other right is missing"


def test_until_an_administrator_lets_it_ask_who_scrapes_it_says_what_is_missing(
    cluster: SessionCluster, namespaced: OperatorProcess
) -> None:
    token = f"Bearer {scraping.token(cluster, 'default', 'default')}"
    status, text, _ = scraping.scrape(namespaced, token)
    assert status == 503
    assert text.strip().endswith("an administrator must apply manifests/rbac/metrics")
    assert scraping.scrape(namespaced)[0] == 401, "a missing token is not reviewed"
    rights = cluster.kubectl("kustomize", str(METRICS)).replace("disttest-system", OWN).replace(ROLE, f"{ROLE}-{OWN}")
    cluster.kubectl("apply", "-f", "-", input=rights)
    try:
        cluster.wait_until("it may ask", lambda: scraping.scrape(namespaced, token)[0] == 403, 20)
    finally:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", f"{ROLE}-{OWN}")
