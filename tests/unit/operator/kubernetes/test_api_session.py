import pytest

from disttest_operator.kubernetes.api_session import describe

ROWS = [
    ("GET", "/api/v1/namespaces/n/pods/p/log", {}, "get", "pods/log"),
    ("GET", "/api/v1/pods", {"watch": "true"}, "watch", "pods"),
    ("GET", "/api/v1/pods", {"labelSelector": "a"}, "list", "pods"),
    ("GET", "/apis/batch/v1/namespaces/n/jobs", {}, "list", "jobs"),
    ("GET", "/apis/batch/v1/namespaces/n/jobs/j", {}, "get", "jobs"),
    ("POST", "/apis/batch/v1/namespaces/n/jobs", {}, "create", "jobs"),
    ("PATCH", "/apis/disttest.dev/v1alpha1/namespaces/n/disttests/t/status", {}, "patch", "disttests/status"),
    ("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", {}, "update", "leases"),
    ("DELETE", "/apis/batch/v1/namespaces/n/jobs/j", {}, "delete", "jobs"),
    ("GET", "/api/v1/namespaces", {}, "list", "namespaces"),
    ("GET", "/api/v1/namespaces/n", {}, "get", "namespaces"),
    ("GET", "/apis", {}, "get", "discovery"),
    ("GET", "/apis/batch/v1", {}, "get", "discovery"),
]


@pytest.mark.parametrize(("method", "path", "query", "verb", "resource"), ROWS)
def test_a_request_is_named_as_rbac_names_it(
    method: str, path: str, query: dict[str, str], verb: str, resource: str
) -> None:
    request = describe(method, path, query)
    assert (request.verb, request.resource) == (verb, resource)


def test_a_watch_of_one_namespace_names_it() -> None:
    watch = {"watch": "true"}
    assert describe("GET", "/api/v1/namespaces/n/pods", watch).namespace == "n"
    assert describe("GET", "/api/v1/pods", watch).namespace == ""
