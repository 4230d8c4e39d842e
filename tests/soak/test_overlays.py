"""Each overlay as a user installs it: one `kubectl apply -k` on an empty cluster, another, and `kubectl delete -k`."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.cluster import Manifest, SessionCluster, fresh_cluster, say_aloud
from tests.support.operators.operator import disttest
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
FOLDERS = ("base", *(f"overlays/{path.name}" for path in sorted((MANIFESTS / "overlays").iterdir())))
OTHERS = (  # of operators that such an installation asks for: group, kind, scope
    ("monitoring.coreos.com/v1", "ServiceMonitor", "Namespaced"),
    ("monitoring.coreos.com/v1", "PrometheusRule", "Namespaced"),
    ("kueue.x-k8s.io/v1beta1", "ResourceFlavor", "Cluster"),
    ("kueue.x-k8s.io/v1beta1", "ClusterQueue", "Cluster"),
    ("kueue.x-k8s.io/v1beta1", "LocalQueue", "Namespaced"),
)
ALWAYS = "poddisruptionbudget"  # whose selector kubectl sends whether it has changed or not


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    """An empty one, but for what other people's operators bring."""
    with fresh_cluster(tmp_path_factory.mktemp("overlays"), say_aloud(request.config)) as fresh:
        fresh.apply([a_crd(*other) for other in OTHERS])
        fresh.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        fresh.kubectl("create", "namespace", "monitoring")
        yield fresh


def a_crd(version: str, kind: str, scope: str) -> Manifest:
    group, _, name = version.partition("/")
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Groups of kubernetes.io and k8s.io ask for it.
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
        },
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [served],
        },
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_overlay_installs_in_one_go_again_without_a_change_and_goes_without_a_trace(
    folder: str, cluster: SessionCluster
) -> None:
    path = str(MANIFESTS / folder)
    before = everything(cluster)
    try:
        made = cluster.kubectl("apply", "-k", path).splitlines()
        assert [line for line in made if not line.endswith(" created")] == []
        again = cluster.kubectl("apply", "-k", path).splitlines()
        assert [line for line in again if not line.endswith(" unchanged") and not line.startswith(ALWAYS)] == []
        assert len(again) == len(made)
        # As others apply: a field that is stored in other words than it is written would be a conflict.
        other = cluster.kubectl("apply", "--server-side", "-k", path).splitlines()
        assert [line for line in other if not line.endswith(" serverside-applied")] == []
        for how in ((), ("--server-side",)):
            assert cluster.kubectl("diff", *how, "-k", path, check=False) == ""
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-k", path)
    cluster.wait_until("nothing is left", lambda: everything(cluster) == before, 60)


def everything(cluster: SessionCluster) -> set[str]:
    """What belongs to no namespace, where the rest goes with its namespace."""
    kinds = "crd,namespace,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding"
    listed = set(cluster.kubectl("get", kinds, "-o", "name").split())
    return listed | set(cluster.kubectl("get", "configmaps", "-n", "monitoring", "-o", "name").split())


def test_who_removes_runs_first_leaves_no_pod(cluster: SessionCluster) -> None:
    """As docs/operating/installing.md says; the garbage collector needs the kind of an owner that has gone."""
    overlay = str(MANIFESTS / "overlays/dev")
    cluster.kubectl("apply", "-k", overlay)
    cluster.kubectl("-n", "disttest-system", "rollout", "status", "deployment/disttest-operator", "--timeout=60s")
    with cluster.namespace() as namespace:
        cluster.apply(disttest(namespace, "on"))
        cluster.wait_until("its pods are there", lambda: len(cluster.find("pods", namespace)) == 2)
        cluster.kubectl("delete", "disttests", "--all", "--all-namespaces")
        cluster.kubectl("delete", "-k", overlay)
        cluster.wait_until("nothing is left", lambda: not cluster.find("pods,jobs,services", namespace), 60)
