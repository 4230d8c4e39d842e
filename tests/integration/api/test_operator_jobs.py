"""Jobs that the operator may create: gangs of a DistTest, and no way to the API, to Secrets or to a node.

Its rights are those of manifests/rbac, so each refusal is that of the policy disttest-operator-jobs.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from disttest_operator.core.workload.job import run_owner
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.operators.operator_token import UID, Token, a_job

ELSEWHERE = "system:serviceaccount:kube-system:disttest-operator"
ALLOWED = {"disttest.dev/allow": "privileged"}
ADVICE = (
    "violates PodSecurity restricted; an administrator can allow it with --allow and the label"
    " disttest.dev/allow=privileged on namespace "
)
NOT_BLOCKING = {"blockOwnerDeletion": False}  # of which OwnerReferencesPermissionEnforcement would speak first
ROOT = {"runAsNonRoot": False, "runAsUser": 0}
SAFE = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
RESTRICTED = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
PROJECTED = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
OF_A_SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
OF_A_MAP = {"configMapKeyRef": {"name": "c", "key": "k"}}


def an_owner(**change: Any) -> Manifest:
    return {"metadata": {"ownerReferences": [run_owner("nightly", UID) | NOT_BLOCKING | change]}}


def a_security(**change: Any) -> Manifest:
    return {"securityContext": SAFE | change}


# Refused everywhere: what is changed, and words of the sentence.
NEVER: dict[str, tuple[Manifest, str]] = {
    "no owner": ({"metadata": {"ownerReferences": []}}, "must be its controller"),
    "an owner of another group": (an_owner(apiVersion="apps/v1"), "must be its controller"),
    "no controller": (an_owner(controller=False), "must be its controller"),
    "another uid than its label's": (an_owner(uid="other"), "must be its controller"),
    "a series as controller": (an_owner(kind="DistTestSeries"), "must be its controller"),
    "no labels": ({"metadata": {"labels": {"disttest.dev/uid": UID}}}, "must have the labels of their run"),
    "pods without labels": ({"template": {"labels": {}}}, "must have the labels of their run"),
    "a token": ({"pod": {"automountServiceAccountToken": True}}, "pods of DistTests cannot have a token"),
    "nothing said about a token": (
        {"pod": {"automountServiceAccountToken": None}},
        "pods of DistTests cannot have a token",
    ),
    "a token by projection": ({"volumes": [{"name": "t", **PROJECTED}]}, "not Secrets or tokens"),
    "a Secret as volume": ({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}, "not Secrets or tokens"),
    "a file server": ({"volumes": [{"name": "n", "nfs": {"server": "s", "path": "/"}}]}, "must be emptyDir, configMap"),
    "a Secret as variable": (
        {"container": {"env": [{"name": "A", "valueFrom": OF_A_SECRET}]}},
        "cannot come from Secrets or ConfigMaps",
    ),
    "a ConfigMap as variable": (
        {"container": {"env": [{"name": "A", "valueFrom": OF_A_MAP}]}},
        "cannot come from Secrets or ConfigMaps",
    ),
    "a Secret as environment": (
        {"container": {"envFrom": [{"secretRef": {"name": "s"}}]}},
        "cannot come from Secrets or ConfigMaps",
    ),
    "a Secret before the test": (
        {"init": {"envFrom": [{"secretRef": {"name": "s"}}]}},
        "cannot come from Secrets or ConfigMaps",
    ),
}
# Refused but in namespaces that allow it.
PRIVILEGES: dict[str, tuple[Manifest, str]] = {
    "the host's network": ({"pod": {"hostNetwork": True}}, "a namespace or port of the host"),
    "a port of the host": (
        {"container": {"ports": [{"containerPort": 29400, "hostPort": 29400}]}},
        "a namespace or port of the host",
    ),
    "the host's processes": ({"pod": {"hostPID": True}}, "a namespace or port of the host"),
    "the host's memory": ({"pod": {"hostIPC": True}}, "a namespace or port of the host"),
    "the host's files": ({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, "a hostPath volume"),
    "privileged": (
        {"container": a_security(privileged=True, allowPrivilegeEscalation=True)},
        "a container with privileges or capabilities",
    ),
    "escalation": ({"container": a_security(allowPrivilegeEscalation=True)}, "with privileges or capabilities"),
    "escalation before the test": ({"init": a_security(allowPrivilegeEscalation=True)}, "with privileges"),
    "escalation is unset": ({"container": {"securityContext": {}}}, "with privileges or capabilities"),
    "a capability": (
        {"container": a_security(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]})},
        "with privileges or capabilities",
    ),
    "no capability dropped": ({"container": a_security(capabilities={})}, "with privileges or capabilities"),
    "root": ({"pod": {"securityContext": RESTRICTED | ROOT}}, "a container that may run as root"),
    "root in a container": ({"container": a_security(**ROOT)}, "a container that may run as root"),
    "root before the test": ({"init": a_security(runAsUser=0)}, "a container that may run as root"),
    "a user that is unset": (
        {"pod": {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}},
        "a container that may run as root",
    ),
    "no seccomp": (
        {"pod": {"securityContext": RESTRICTED | {"seccompProfile": {"type": "Unconfined"}}}},
        "a seccomp profile other than",
    ),
    "no seccomp in a container": (
        {"container": a_security(seccompProfile={"type": "Unconfined"})},
        "a seccomp profile other than",
    ),
    "a sysctl": (
        {"pod": {"securityContext": RESTRICTED | {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}}},
        "or a sysctl",
    ),
    "a ServiceAccount": ({"pod": {"serviceAccountName": "builder"}}, "a ServiceAccount other than default"),
}
PASS: dict[str, Manifest] = {
    "as it is": {},
    "a claim and a ConfigMap": {
        "volumes": [
            {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "m", "configMap": {"name": "m"}},
        ]
    },
    "the default ServiceAccount": {"pod": {"serviceAccountName": "default"}},
    "a user with a number": {"container": a_security(runAsUser=65532)},
}


@pytest.fixture(scope="module")
def allowing(cluster: SessionCluster) -> Iterator[str]:
    with cluster.namespace(ALLOWED) as name:
        yield name


@pytest.mark.parametrize("case", (NEVER | PRIVILEGES).values(), ids=(NEVER | PRIVILEGES).keys())
def test_jobs_that_no_disttest_asks_for_are_refused(case: tuple[Manifest, str], policies: Token) -> None:
    change, words = case
    status, message = policies.create_job(change)
    assert status == 403, message
    assert words in message
    assert f"{policies.api.namespace}/nightly-a1" in message


@pytest.mark.parametrize("change", PASS.values(), ids=PASS.keys())
def test_jobs_of_disttests_pass(change: Manifest, policies: Token) -> None:
    assert policies.create_job(change) == (201, "")


@pytest.mark.parametrize("change", [case[0] for case in PRIVILEGES.values()], ids=PRIVILEGES.keys())
def test_where_the_namespace_allows_it_privileges_pass(change: Manifest, policies: Token, allowing: str) -> None:
    assert policies.create_job(change, namespace=allowing) == (201, "")


def test_even_there_no_pod_gets_a_token_or_a_secret(policies: Token, allowing: str) -> None:
    for change, words in NEVER.values():
        status, message = policies.create_job(change, namespace=allowing)
        assert status == 403, message
        assert words in message


def test_others_are_not_held_to_what_the_operator_is(policies: Token) -> None:
    administrator = Token(policies.api, user="")
    for change, _ in (NEVER | PRIVILEGES).values():
        assert administrator.create_job(change) == (201, "")


def test_an_operator_in_another_namespace_is_held_to_it_too(policies: Token) -> None:
    api = policies.api
    where = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{api.namespace}/rolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "disttest-operator"}
    subject = {"kind": "ServiceAccount", "namespace": "kube-system", "name": "disttest-operator"}
    status, answer = api.request(
        "POST", where, {"metadata": {"name": "elsewhere"}, "roleRef": role, "subjects": [subject]}
    )
    assert status == 201, answer
    elsewhere = Token(api, user=ELSEWHERE)
    api.cluster.wait_until("it has its rights", lambda: elsewhere.create_job({})[0] == 201)
    status, message = elsewhere.create_job(PRIVILEGES["privileged"][0])
    assert status == 403
    assert "ValidatingAdmissionPolicy 'disttest-operator-jobs'" in message


def test_a_rejection_says_how_to_allow_the_job(policies: Token) -> None:
    for change, _ in PRIVILEGES.values():
        _, message = policies.create_job(change)
        assert message.endswith(f"{ADVICE}{policies.api.namespace} (docs/operating/security.md)")


def test_a_job_of_a_run_that_does_not_exist_does_not_last(policies: Token) -> None:
    """No policy can look the run up."""
    api, job = policies.api, a_job(policies.api.namespace, {})
    job["spec"]["suspend"] = True
    status, answer = api.request("POST", policies.jobs, job, user=policies.user)
    assert status == 201, answer
    path = f"{policies.jobs}/nightly-a1"
    api.cluster.wait_until("the garbage collector has it", lambda: api.request("GET", path)[0] == 404, 60)
