"""Permissions in the audit log: used, unused, rejected, and their clients."""

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster.controlplane.supervisor import AUDIT_LOG
from tests.support.clusters import audit
from tests.support.clusters.audit import AuditedRequest
from tools.docs.permissions import Right

OPERATOR = "system:serviceaccount:disttest-system:disttest-operator"
ROLE = "disttest-operator"
BY = 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "{role}" to ServiceAccount "a/b"'


def an_event(verb: str = "get", resource: str = "pods", **changes: Any) -> dict[str, Any]:
    """As the API server writes it, allowed by the operator's role."""
    target, _, subresource = resource.partition("/")
    usual: dict[str, Any] = {
        "verb": verb,
        "requestURI": f"/api/v1/namespaces/n/{resource}?limit=500",
        "user": {"username": OPERATOR},
        "objectRef": {"resource": target, "namespace": "n", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": BY.format(role=ROLE)},
    }
    if subresource:
        usual["objectRef"]["subresource"] = subresource
    return usual | changes


def a_request(*words: str, **changes: Any) -> AuditedRequest:
    return AuditedRequest.read(an_event(*words, **changes))


def test_a_request_is_a_right_and_the_role_that_allowed_it() -> None:
    found = a_request("get", "pods/log")
    assert (found.role, found.right, found.is_allowed) == (ROLE, Right("pods/log", "get"), True)
    target = {"resource": "disttests", "subresource": "status", "apiGroup": "disttest.dev", "name": "cpu"}
    assert a_request("patch", objectRef=target).right == Right("disttests.disttest.dev/status", "patch", "cpu")
    assert a_request("get", objectRef=None, requestURI="/version?x=y").right == Right("/version", "get")


def test_a_role_of_a_namespace_is_known_too() -> None:
    notes = {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": 'RBAC: allowed by RoleBinding "b/runs" of Role "own" to ServiceAccount "a/b"',
    }
    assert a_request(annotations=notes).role == "own"


def test_a_right_is_used_by_any_request_of_its_verb_and_one_for_a_name_by_those_for_that_name() -> None:
    named = Right("leases", "get", "ours")
    have = {(ROLE, Right("pods", "get")), (ROLE, Right("pods", "list")), (ROLE, named), ("other", Right("pods", "get"))}
    seen = audit.used([a_request(objectRef={"resource": "pods", "name": "any"})])
    seen |= audit.used([a_request(objectRef={"resource": "leases", "name": "another"})])
    left = {(ROLE, Right("pods", "list")), (ROLE, named), ("other", Right("pods", "get"))}
    assert audit.unused(have, seen) == left
    seen |= audit.used([a_request(objectRef={"resource": "leases", "name": "ours"})])
    assert audit.unused(have, seen) == left - {(ROLE, named)}


def test_what_was_not_allowed_uses_no_right() -> None:
    forbidden = a_request(annotations={"authorization.k8s.io/decision": "forbid"}, responseStatus={"code": 403})
    assert audit.used([forbidden]) == set()
    assert audit.refused([forbidden]) == [forbidden]


def test_what_admission_refused_is_refused_though_a_right_was_used() -> None:
    status = {"code": 403, "message": "exceeded quota"}
    request = a_request("create", responseStatus=status)
    assert audit.refused([request, a_request()]) == [request]
    assert audit.used([request]) == {(ROLE, Right("pods", "create"))}
    assert audit.as_text([request]).endswith(
        "create /api/v1/namespaces/n/pods?limit=500: 403 by disttest-operator exceeded quota"
    )


def test_a_review_contains_the_role_that_allows_to_scrape() -> None:
    review = {
        "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        "status": {"allowed": True, "reason": BY.format(role="disttest-metrics-reader")},
    }
    reads = ("disttest-metrics-reader", Right("/metrics", "get"))
    asked = a_request("create", "subjectaccessreviews", responseObject=review)
    assert audit.used([asked]) == {(ROLE, Right("subjectaccessreviews", "create")), reads}
    review["status"] = {"allowed": False, "reason": ""}
    refused = a_request("create", "subjectaccessreviews", responseObject=review)
    assert reads not in audit.used([refused])


def test_rights_of_other_roles_and_requests_of_others_are_found() -> None:
    own, foreign = a_request(), a_request(annotations={"authorization.k8s.io/decision": "allow"})
    assert audit.by_other_roles([own, foreign], {ROLE}) == [foreign]
    pod = a_request(user={"username": "system:serviceaccount:runs:default"})
    anonymous = a_request(user={"username": audit.ANONYMOUS})
    assert audit.strangers([own, pod, anonymous], {OPERATOR}) == [pod, anonymous]


def a_binding(role: str, kind: str, user: str = "disttest-operator", namespace: str = "") -> dict[str, Any]:
    meta = {"name": role} | ({"namespace": namespace} if namespace else {})
    subject = {"kind": "ServiceAccount", "name": user, "namespace": "disttest-system"}
    return {"kind": f"{kind}Binding", "metadata": meta, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]}


def test_granted_is_what_roles_allow_that_are_bound_to_the_account() -> None:
    def role(name: str, kind: str, resource: str, **meta: str) -> dict[str, Any]:
        rules = [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]
        return {"kind": kind, "metadata": {"name": name, **meta}, "rules": rules}

    manifests = [
        *(role("own", "Role", "pods", namespace="n"), a_binding("own", "Role", namespace="n")),
        *(role("all", "ClusterRole", "nodes"), a_binding("all", "ClusterRole")),
        *(role("others", "ClusterRole", "secrets"), a_binding("others", "ClusterRole", user="other")),
        role("anonymous", "ClusterRole", "secrets"),
    ]
    assert audit.granted(manifests, OPERATOR) == {("own", Right("pods", "get")), ("all", Right("nodes", "get"))}


def test_no_line_is_lost_when_a_full_file_was_put_aside_and_a_half_written_one_waits(tmp_path: Path) -> None:
    newest = tmp_path / AUDIT_LOG
    newest.parent.mkdir()
    first, second, third = (json.dumps(an_event(verb)) for verb in ("get", "list", "watch"))
    newest.with_name("audit-2026-11-21T02-00-00.000.log").write_text(f"{first}\n")
    newest.write_text(f"{second}\n{third[:20]}")
    assert [request.right.verb for request in audit.requests(tmp_path)] == ["get", "list"]


def test_of_all_that_is_asked_bodies_are_written_down_of_access_reviews_only() -> None:
    """Reviews of tokens carry tokens."""
    bodies = [rule for rule in audit.OF_RIGHTS if rule["level"] not in {"None", "Metadata"}]
    groups = [{"group": "authorization.k8s.io", "resources": ["subjectaccessreviews"]}]
    assert [rule["resources"] for rule in bodies] == [groups]


def test_logs_of_clusters_that_end_are_kept_for_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = tmp_path / "state" / AUDIT_LOG
    newest.parent.mkdir(parents=True)
    newest.write_text(f"{json.dumps(an_event())}\n")
    monkeypatch.delenv(audit.FOLDER, raising=False)
    audit.keep(tmp_path / "state")
    kept = tmp_path / "kept"
    kept.mkdir()
    monkeypatch.setenv(audit.FOLDER, str(kept))
    audit.keep(tmp_path / "state")
    audit.keep(tmp_path / "state")
    assert [len(audit.requests(state)) for state in kept.iterdir()] == [1, 1]
