"""Uses every right of the operator, of nightly pods and of scrapers once, on a cluster of real nodes with stub nodes.

Gangs are on stub nodes, where they take no time; the operator and the nightly pod are in their images, with the tokens
that a real kubelet gave them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import patience
from tests.support.clusters import real_nodes
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.clusters.real_nodes import MANIFESTS, NAMESPACE, PROCESS_NODE, SYSTEM
from tests.support.clusters.stub_nodes import stub_template
from tests.support.monitoring import scraping
from tests.support.operators import nightly
from tests.support.operators.operator import disttest, finished, patch_spec, reaches_phase, write_ledger

NIGHTS = "disttest-nightly"
NIGHT = "nightly-1x8"
OPERATOR_IMAGE = "registry.devcluster/disttest-operator:dev"
SCRAPER = "scraper"
FLAGS = ("--label-suspect-nodes", "--retained-reports=1", "--allow=service-account:no-such-account")
LONG_AGO = "2020-01-01T00:00:00Z"
SUSPECT = "disttest.dev/suspect"
SECONDS = 60
SCRAPE = """
import ssl, sys, urllib.request
asked = urllib.request.Request("https://127.0.0.1:8443/metrics", headers={"Authorization": "Bearer " + sys.argv[1]})
print(urllib.request.urlopen(asked, timeout=10, context=ssl._create_unverified_context()).status)
"""
QUICK: Manifest = {"timeouts": {"queueSeconds": 6, "rendezvousSeconds": 30, "caseSeconds": 30, "runSeconds": 60}}


def use(cluster: SessionCluster, folder: Path) -> None:
    """Start all at once, and return when each has reached its purpose."""
    restart_with(cluster, FLAGS)
    begin_a_night(cluster, folder)
    cluster.apply(list(runs()))
    passes(cluster, "kept-1")
    passes(cluster, "kept-2")
    a_ledger_goes_and_a_node_is_labelled(cluster)
    a_second_gang_is_made(cluster)
    a_gang_is_suspended_and_cancelled(cluster)
    a_job_is_lost(cluster)
    names_that_are_missing(cluster)
    no_node_is_large_enough(cluster)
    a_run_goes_by_its_ttl(cluster)
    metrics_are_scraped(cluster)
    a_night_ends(cluster)


def restart_with(cluster: SessionCluster, flags: tuple[str, ...]) -> None:
    """A new pod, which takes the Lease over from the one before; with its right to label nodes."""
    cluster.kubectl("apply", "-f", str(MANIFESTS / "rbac/suspects/nodes.yaml"))
    added = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": flag} for flag in flags]
    cluster.kubectl("-n", SYSTEM, "patch", "deployment", "disttest-operator", "--type=json", "-p", json.dumps(added))
    real_nodes.wait_for_rollout(cluster)


def runs() -> Iterator[Manifest]:
    def run(name: str, template: Manifest, **spec: Any) -> Manifest:
        return disttest(NAMESPACE, name, template=template, **spec)

    for number in (1, 2):
        yield run(f"kept-{number}", stub_template(), series="kept")
    yield run("brief", stub_template(), ttlSecondsAfterFinished=0)
    yield run("twice", stub_template(end="crash"), retries={"infrastructure": 1})
    yield run("paused", stub_template(end="hang"))
    yield run("robbed", stub_template(end="hang"))
    yield run(
        "missing-account", {"spec": {**stub_template()["spec"], "serviceAccountName": "no-such-account"}}, **QUICK
    )
    yield run("missing-claim", stub_template(), artifacts={"persistentVolumeClaim": "none"}, **QUICK)
    yield run("missing-list", stub_template(), quarantine={"configMap": {"name": "none"}}, **QUICK)
    yield run("too-large", stub_template(), gpusPerNode=16, ranksPerNode=16, **QUICK)


def passes(cluster: SessionCluster, name: str) -> None:
    status = finished(cluster, NAMESPACE, name)
    assert status["verdict"] == "Passed", status


def a_ledger_goes_and_a_node_is_labelled(cluster: SessionCluster) -> None:
    """With ledgers written by an administrator, which avoids a long wait and a defective node."""
    blamed = {"name": PROCESS_NODE, "reason": "NodeLost", "count": 1, "confirmed": False, "lastTime": LONG_AGO}
    write_ledger(cluster, NAMESPACE, "forgotten", runCount=3, lastVerdict="Passed", lastCompletionTime=LONG_AGO)
    write_ledger(cluster, NAMESPACE, "blaming", suspectNodes=[blamed])
    cluster.wait_until("the ledger is gone", lambda: not cluster.get("disttestseries", "forgotten", NAMESPACE))
    cluster.wait_until("the node is labelled", lambda: cluster.find("nodes", selector=f"{SUSPECT}=NodeLost"))


def a_second_gang_is_made(cluster: SessionCluster) -> None:
    status = finished(cluster, NAMESPACE, "twice")
    assert status["verdict"] == "InfraFailed", status
    assert len(status["attempts"]) == 2, status


def a_gang_is_suspended_and_cancelled(cluster: SessionCluster) -> None:
    reaches_phase(cluster, NAMESPACE, "paused", "Running")
    patch_spec(cluster, NAMESPACE, "paused", suspend=True)
    cluster.wait_until("its pods are gone", lambda: not real_nodes.pods_of(cluster, "paused"))
    patch_spec(cluster, NAMESPACE, "paused", cancel=True)
    assert finished(cluster, NAMESPACE, "paused")["verdict"] == "Cancelled"


def a_job_is_lost(cluster: SessionCluster) -> None:
    reaches_phase(cluster, NAMESPACE, "robbed", "Running")
    cluster.kubectl("delete", "job", "robbed-a1", "-n", NAMESPACE, "--wait=false")
    status = finished(cluster, NAMESPACE, "robbed")
    assert status["verdict"] != "Passed", status


def names_that_are_missing(cluster: SessionCluster) -> None:
    for name, what in {"account": "no-such-account", "claim": "none", "list": "none"}.items():
        status = finished(cluster, NAMESPACE, f"missing-{name}")
        assert status["verdict"] == "Errored", status
        assert what in status["message"], status


def no_node_is_large_enough(cluster: SessionCluster) -> None:
    status = finished(cluster, NAMESPACE, "too-large")
    assert (status["verdict"], status["reason"]) == ("Errored", "InsufficientGPUs"), status


def a_run_goes_by_its_ttl(cluster: SessionCluster) -> None:
    cluster.wait_until("its time to live is over", lambda: not cluster.get("disttest", "brief", NAMESPACE), SECONDS)


def metrics_are_scraped(cluster: SessionCluster) -> None:
    scraping.account(cluster, NAMESPACE, SCRAPER, may_scrape=True)
    try:
        token = scraping.token(cluster, NAMESPACE, SCRAPER)
        pod = real_nodes.active_operator(cluster)["metadata"]["name"]
        assert real_nodes.execute(cluster, SYSTEM, pod, "python", "-c", SCRAPE, token).strip() == "200"
    finally:
        cluster.kubectl("delete", "clusterrolebinding", scraping.binding(NAMESPACE, SCRAPER))


def begin_a_night(cluster: SessionCluster, folder: Path) -> None:
    """As a user tries a CronJob. The run is suspended, since otherwise it could end before the test waits for it."""
    cluster.kubectl("apply", "-f", str(MANIFESTS / "overlays/nightly/namespace.yaml"))
    test = nightly.disttest(
        NIGHT, suspend=True, template={"spec": stub_template()["spec"]}
    )  # annotations are not for nights
    overlay = nightly.write_overlay(folder, NIGHTS, {NIGHT: test}, image=OPERATOR_IMAGE)
    cluster.kubectl("apply", "-k", str(overlay))
    cluster.kubectl("create", "job", "try-1", f"--from=cronjob/{NIGHT}", "-n", NIGHTS)


def a_night_ends(cluster: SessionCluster) -> None:
    run = cluster.kubectl("get", "disttests", "-n", NIGHTS, "-o", "name").strip()
    cluster.kubectl("patch", run, "-n", NIGHTS, "--type=merge", "-p", '{"spec": {"suspend": false}}')
    limit = f"--timeout={patience.whole(SECONDS)}s"
    said = cluster.kubectl("wait", "job/try-1", "-n", NIGHTS, "--for=condition=Complete", limit, check=False)
    assert "condition met" in said, said + cluster.kubectl("logs", "job/try-1", "-n", NIGHTS, check=False)
