"""The API server accepts the manifests, and they grant only the intended permissions."""

import functools
import json
from collections.abc import Iterator

import pytest
import yaml

from tests.support.clusters.api import MANIFESTS, Api
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators import documented_rights
from tools.docs import permissions
from tools.docs.__main__ import ROOT, SECURITY

OPERATOR = "system:serviceaccount:disttest-system:disttest-operator"
NIGHTLY = "system:serviceaccount:disttest-nightly:disttest-nightly"
RIGHTS = ("Role", "RoleBinding")
FOLDERS = ("base", *(f"overlays/{path.name}" for path in sorted((MANIFESTS / "overlays").iterdir())))
FOREIGN = ("monitoring.coreos.com/", "kueue.x-k8s.io/")  # of operators that are not there
WITH_PODS = {"Deployment", "CronJob"}


def test_explain_reads_well(cluster: SessionCluster, api: Api) -> None:
    text = " ".join(cluster.kubectl("explain", "dt.spec.timeouts").split())
    assert "timeouts are deadlines in whole seconds" in text
    assert (
        "caseSeconds <integer> caseSeconds limits the time of a single case. After that the outcome of the case is hung"
        in text
    )


@functools.cache
def rendered(cluster: SessionCluster, folder: str) -> str:
    return cluster.kubectl("kustomize", str(MANIFESTS / folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_api_server_accepts_every_manifest_that_is_installed(
    folder: str, cluster: SessionCluster, api: Api
) -> None:
    # Dry runs create no namespace for the ones that come after it.
    objects = [entry for entry in yaml.safe_load_all(rendered(cluster, folder)) if entry["kind"] != "Namespace"]
    objects = [entry for entry in objects if not entry["apiVersion"].startswith(FOREIGN)]
    for entry in objects:
        if "namespace" in entry["metadata"]:
            entry["metadata"]["namespace"] = api.namespace
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    made = cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", input=listed
    )
    assert len(made.splitlines()) == len(objects)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_role_that_is_installed_allows_what_the_documentation_says(folder: str, cluster: SessionCluster) -> None:
    entries = list(yaml.safe_load_all(rendered(cluster, folder)))
    documented = {(row.role, row.right) for row in documented_rights.read((ROOT / SECURITY).read_text())}
    found = permissions.of_roles(entries)
    assert found
    for role, allowed in found.items():
        assert allowed == {right for name, right in documented if name == role}, role


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_pod_that_is_installed_is_let_into_a_restricted_namespace(
    folder: str, cluster: SessionCluster, strict: str, api: Api
) -> None:
    """Also that of the overlay for RDMA, whose runs may leave it: the operator does not."""
    found = [entry["spec"] for entry in yaml.safe_load_all(rendered(cluster, folder)) if entry["kind"] in WITH_PODS]
    assert found
    for spec in found:
        template = spec.get("template") or spec["jobTemplate"]["spec"]["template"]
        template["spec"].pop("serviceAccountName")  # it is looked up first, and is not in this namespace
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "x", **template["metadata"]}}
        template["spec"]["restartPolicy"] = "Never"
        status, answer = api.request("POST", f"/api/v1/namespaces/{strict}/pods?dryRun=All", pod)
        assert status == 201, answer["message"]


@pytest.fixture(scope="module")
def strict(cluster: SessionCluster) -> Iterator[str]:
    with cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        yield name


@pytest.mark.parametrize("sample", sorted(path.name for path in (MANIFESTS / "samples").glob("*.yaml")))
def test_the_api_server_accepts_the_samples(sample: str, cluster: SessionCluster, api: Api) -> None:
    cluster.kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "-n",
        api.namespace,
        "-f",
        str(MANIFESTS / "samples" / sample),
    )


@pytest.fixture(scope="session")
def rights(cluster: SessionCluster, api: Api) -> None:
    """Roles and bindings, without the operator itself and without the CronJobs."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / "operator/namespace.yaml"))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MANIFESTS / "rbac"))
    nightly = yaml.safe_load_all(rendered(cluster, "overlays/nightly"))
    cluster.apply([entry for entry in nightly if entry["kind"] in {"Namespace", "ServiceAccount", *RIGHTS}])


def may(api: Api, user: str, what: str, namespace: str) -> bool:
    """Whether the API server would let `user` do `what`: verb, resource with group, subresource after a slash, name."""
    verb, resource, *named = what.split(" ")
    resource, _, subresource = resource.partition("/")
    name, _, group = resource.partition(".")
    attributes = {
        "verb": verb,
        "resource": name,
        "group": group,
        "subresource": subresource,
        "namespace": namespace,
        "name": "".join(named),
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    status, answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize(
    "what",
    [
        "create disttests.disttest.dev",
        "update disttests.disttest.dev",
        "patch disttests.disttest.dev",
        "patch disttestseries.disttest.dev",
        "patch jobs.batch",
        "create cronjobs.batch",
        "patch cronjobs.batch",
        "create pods",
        "create pods/exec",
        "delete pods",
        "update configmaps",
        "list configmaps",
        "get secrets",
        "list persistentvolumeclaims",
        "list secrets",
        "create serviceaccounts",
        "create serviceaccounts/token",
        "create rolebindings.rbac.authorization.k8s.io",
        "patch nodes",
        "delete namespaces",
        "get leases.coordination.k8s.io",
        "get pods",
        "get cronjobs.batch",
        "get nodes",
        "watch nodes",
    ],
)
def test_the_operator_may_not_do_what_it_does_not_need(what: str, api: Api, rights: None) -> None:
    assert not may(api, OPERATOR, what, api.namespace)


@pytest.mark.parametrize(
    "what",
    [
        "watch disttests.disttest.dev",
        "patch disttests.disttest.dev/status",
        "update disttests.disttest.dev/finalizers",
        "delete disttests.disttest.dev",
        "create disttestseries.disttest.dev",
        "delete disttestseries.disttest.dev",
        "patch disttestseries.disttest.dev/status",
        "create jobs.batch",
        "delete jobs.batch",
        "watch cronjobs.batch",
        "get pods/log",
        "create services",
        "create configmaps",
        "patch configmaps",
        "delete configmaps",
        "get serviceaccounts",
        "get persistentvolumeclaims",
        "list nodes",
        "list events",
        "create events.events.k8s.io",
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
    ],
)
def test_the_operator_may_do_what_it_needs(what: str, api: Api, rights: None) -> None:
    assert may(api, OPERATOR, what, api.namespace)


def test_without_the_role_for_nodes_the_operator_has_no_other_right_beyond_namespaces(api: Api, rights: None) -> None:
    beyond = ("list nodes", "get namespaces", "list namespaces", "list customresourcedefinitions.apiextensions.k8s.io")
    assert [what for what in beyond if may(api, OPERATOR, what, "")] == ["list nodes"]


def test_the_operator_keeps_its_lease_in_its_own_namespace_and_touches_no_other(api: Api, rights: None) -> None:
    own = [f"{verb} leases.coordination.k8s.io disttest-operator" for verb in ("get", "update")]
    assert all(may(api, OPERATOR, what, "disttest-system") for what in (*own, "create leases.coordination.k8s.io"))
    others = [what.removesuffix(" disttest-operator") for what in own]
    assert not any(may(api, OPERATOR, what, "disttest-system") for what in others)
    assert not any(may(api, OPERATOR, what, "kube-system") for what in own)


def test_the_nightly_pod_may_create_and_see_disttests_in_its_namespace_and_nothing_else(api: Api, rights: None) -> None:
    verbs = ("create", "get", "watch")
    assert all(may(api, NIGHTLY, f"{verb} disttests.disttest.dev", "disttest-nightly") for verb in verbs)
    assert not any(may(api, NIGHTLY, f"{verb} disttests.disttest.dev", api.namespace) for verb in verbs)
    others = (
        "list disttests.disttest.dev",
        "update disttests.disttest.dev",
        "patch disttests.disttest.dev/status",
        "delete disttests.disttest.dev",
    )
    foreign = ("create pods", "get configmaps", "create jobs.batch", "get secrets")
    assert not any(may(api, NIGHTLY, what, "disttest-nightly") for what in (*others, *foreign))
