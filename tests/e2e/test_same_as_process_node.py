"""A process node reports the same pod status as the kubelet, except for the differences listed here.

devcluster/README.md tells users of process nodes about these.
"""

import copy
import functools
from collections.abc import Callable

import pytest

from tests.support.clusters import evidence
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.clusters.real_nodes import PROCESS_NODE, PROCESS_TAINT
from tests.support.clusters.same_pods import BY_THEMSELVES, DELETED, STUCK, differences, essence, waiting_reasons
from tests.support.patience import wait_until

REAL_NODE = "real1"
NAMESPACE = "same"
END_SECONDS = 60
TOLERATION = {"key": PROCESS_TAINT, "operator": "Exists"}


@pytest.fixture(scope="module")
def namespace(cluster: SessionCluster) -> str:
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.wait_until("default ServiceAccount", lambda: cluster.get("serviceaccount", "default", NAMESPACE))
    return NAMESPACE


def on(node: str, pod: Manifest) -> Manifest:
    placed = copy.deepcopy(pod)
    placed["metadata"]["name"] += f"-{node}"
    placed["spec"] |= {"nodeName": node, "tolerations": [TOLERATION]}
    return placed


def both(
    cluster: SessionCluster, namespace: str, pod: Manifest, is_settled: Callable[[Manifest], bool]
) -> list[Manifest]:
    """The pod's status on a process node and on a real one, once it is settled."""
    placed = [on(node, pod) for node in (PROCESS_NODE, REAL_NODE)]
    cluster.apply(placed, namespace)
    settled = [
        cluster.wait_until(
            f"{one['metadata']['name']} is settled",
            functools.partial(settled_pod, cluster, one["metadata"]["name"], namespace, is_settled),
            END_SECONDS,
        )
        for one in placed
    ]
    return [essence(one) for one in settled]


def assert_alike(pod: Manifest, process: Manifest, real: Manifest) -> None:
    if found := differences(pod["metadata"]["name"], process, real):
        pytest.fail("\n".join(found))


def settled_pod(
    cluster: SessionCluster, name: str, namespace: str, is_settled: Callable[[Manifest], bool]
) -> Manifest | None:
    pod = cluster.get("pod", name, namespace)
    return pod if pod and is_settled(pod) else None


def has_ended(pod: Manifest) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


@pytest.mark.parametrize("pod", BY_THEMSELVES.values(), ids=BY_THEMSELVES.keys())
def test_a_pod_ends_alike(pod: Manifest, cluster: SessionCluster, namespace: str) -> None:
    process, real = both(cluster, namespace, pod, has_ended)
    assert_alike(pod, process, real)


@pytest.mark.parametrize("pod", DELETED.values(), ids=DELETED.keys())
def test_a_deleted_pod_ends_alike(pod: Manifest, cluster: SessionCluster, namespace: str) -> None:
    """The last event of the watch for it."""
    placed = [on(node, pod) for node in (PROCESS_NODE, REAL_NODE)]
    names = [one["metadata"]["name"] for one in placed]
    with evidence.watching(cluster, namespace) as watch:
        cluster.apply(placed, namespace)
        for name in names:
            cluster.wait_until(f"{name} speaks", functools.partial(has_spoken, cluster, name, namespace), END_SECONDS)
        cluster.kubectl("delete", "pod", "-n", namespace, *names)
        last = cluster.wait_until("both are gone", functools.partial(gone, watch, names), END_SECONDS)
    process, real = (essence(one) for one in last)
    assert_alike(pod, process, real)


def has_spoken(cluster: SessionCluster, name: str, namespace: str) -> bool:
    said = cluster.kubectl("logs", "-n", namespace, name, check=False)
    return said.strip() in ("deaf", "ready")


def gone(watch: evidence.NamespaceWatch, names: list[str]) -> list[Manifest] | None:
    last = {one.object["metadata"]["name"]: one.object for one in watch.of("pods") if one.type == "DELETED"}
    return [last[name] for name in names] if last.keys() >= set(names) else None


@pytest.mark.parametrize(("pod", "reason"), STUCK.values(), ids=STUCK.keys())
def test_a_pod_waits_alike(pod: Manifest, reason: str, cluster: SessionCluster, namespace: str) -> None:
    """In the end: some reasons are there from the start, and the conditions follow."""
    both(cluster, namespace, pod, lambda one: reason in waiting_reasons(one))
    name = pod["metadata"]["name"]

    def now(node: str) -> Manifest:
        found = cluster.get("pod", f"{name}-{node}", namespace)
        assert found, node
        return essence(found)

    def found() -> list[str]:
        return differences(name, now(PROCESS_NODE), now(REAL_NODE))

    wait_until("both nodes agree", lambda: not found(), END_SECONDS, details=lambda: "\n".join(found()))
    cluster.kubectl("delete", "pod", "-n", namespace, "--all", "--wait=false")
