"""Rights for which no request is sent: without each of them an admission plugin refuses what the operator does send."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from disttest_operator.core.workload import job
from tests.support.builders.runs import a_test
from tests.support.clusters.api import Api
from tests.support.clusters.cluster import KubectlError, SessionCluster
from tools.docs.__main__ import roles
from tools.docs.permissions import ASKED_BY_ADMISSION, resource

ROLE = "disttest-operator"
ACCOUNT = "poor"
DRY = "--dry-run=server"


def without(words: str) -> dict[str, Any]:
    """The operator's role, as a Role of a namespace, but for this right."""
    verb, _, target = words.partition(" ")
    [role] = [one for one in roles() if one["metadata"]["name"] == ROLE]
    rules = []
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for name in rule["resources"]:
                verbs = [one for one in rule["verbs"] if (one, resource(name, group)) != (verb, target)]
                rules.append({"apiGroups": [group], "resources": [name], "verbs": verbs})
    return {**role, "kind": "Role", "metadata": {"name": ACCOUNT}, "rules": [rule for rule in rules if rule["verbs"]]}


def create_a_service(cluster: SessionCluster, namespace: str, user: str) -> None:
    """Of an attempt, owned by its run."""
    service = json.dumps(job.build_service(replace(a_test(), namespace=namespace), 1))
    cluster.kubectl("create", DRY, f"--as={user}", "-f", "-", input=service)


def change_the_owner_of_a_report(cluster: SessionCluster, namespace: str, user: str) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "report"}}, namespace)
    patch = json.dumps({"metadata": {"ownerReferences": [job.series_owner("nightly", "uid-of-nightly")]}})
    cluster.kubectl(
        *("patch", "configmap", "report", "-n", namespace, DRY, f"--as={user}", "--type=merge", "--patch", patch)
    )


REQUESTS: dict[str, tuple[Callable[[SessionCluster, str, str], None], str]] = {
    "update disttests.disttest.dev/finalizers": (create_a_service, "cannot set blockOwnerDeletion"),
    "delete configmaps": (change_the_owner_of_a_report, "cannot set an ownerRef on a resource you can't delete"),
}


def test_each_of_them_is_tried() -> None:
    assert REQUESTS.keys() == ASKED_BY_ADMISSION


@pytest.mark.parametrize("words", sorted(REQUESTS))
def test_without_the_right_the_request_of_the_operator_is_refused_and_with_it_it_is_not(
    words: str, cluster: SessionCluster, api: Api, namespace: str
) -> None:
    send, said = REQUESTS[words]
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", namespace)
    cluster.apply(without("no right"), namespace)
    cluster.kubectl(
        *("create", "rolebinding", ACCOUNT, f"--role={ACCOUNT}", f"--serviceaccount={namespace}:{ACCOUNT}"),
        *("-n", namespace),
    )
    cluster.wait_until("it may all that the operator may", lambda: is_accepted(send, cluster, namespace, user))
    cluster.apply(without(words), namespace)
    cluster.wait_until("it is no longer allowed", lambda: not is_accepted(send, cluster, namespace, user))
    with pytest.raises(KubectlError, match=said):
        send(cluster, namespace, user)


def is_accepted(
    send: Callable[[SessionCluster, str, str], None], cluster: SessionCluster, namespace: str, user: str
) -> bool:
    try:
        send(cluster, namespace, user)
    except KubectlError:
        return False
    return True
