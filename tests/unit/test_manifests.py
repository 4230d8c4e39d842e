"""What auditors check in all manifests: permissions, pods, namespaces, policies."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
LEAVES_RESTRICTED = {"disttest-rdma"}
# Rights that are as good as more rights, or as a way into pods.
GRAVE_RESOURCES = {
    "secrets",
    "serviceaccounts/token",
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/proxy",
    "pods/ephemeralcontainers",
    "nodes/proxy",
    "services/proxy",
}
GRAVE_VERBS = {"escalate", "bind", "impersonate", "approve", "sign", "deletecollection"}
PEOPLE = {"disttest-edit"}  # may delete DistTests as kubectl does, several at once

Manifest = dict[str, Any]


def documents(*kinds: str) -> list[Manifest]:
    """Of these kinds, in all files below manifests, samples too."""
    texts = [path.read_text() for path in sorted(MANIFESTS.rglob("*.yaml"))]
    read = [document for text in texts for document in yaml.safe_load_all(text)]
    found = [document for document in read if isinstance(document, dict) and document.get("kind") in kinds]
    assert found, f"no {kinds} in {MANIFESTS}"
    return found


def rules() -> Iterator[tuple[str, Manifest]]:
    for role in documents("Role", "ClusterRole"):
        for rule in role["rules"]:
            yield role["metadata"]["name"], rule


def pod_templates() -> list[Manifest]:
    templates = [entry["spec"]["template"] for entry in documents("Deployment")]
    return templates + [entry["spec"]["jobTemplate"]["spec"]["template"] for entry in documents("CronJob")]


def test_no_right_is_a_wildcard() -> None:
    for name, rule in rules():
        words = [word for values in rule.values() for word in values]
        assert not [word for word in words if "*" in word], name


def test_no_role_may_read_secrets_enter_pods_or_grant_itself_permissions() -> None:
    for name, rule in rules():
        assert not GRAVE_RESOURCES & set(rule.get("resources", ())), name
        assert not GRAVE_VERBS & set(rule["verbs"]) or name in PEOPLE, name
        assert "rbac.authorization.k8s.io" not in rule.get("apiGroups", ()), name


def test_every_namespace_but_that_for_rdma_enforces_restricted() -> None:
    left = set()
    for namespace in documents("Namespace"):
        if namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] != "restricted":
            left.add(namespace["metadata"]["name"])
    assert left == LEAVES_RESTRICTED


def test_the_operator_is_allowed_something_in_the_overlay_for_rdma_only() -> None:
    """The comments of other kustomizations speak of it, too; what counts is the argument."""
    arguments = {path.parent.name for path in MANIFESTS.rglob("*.yaml") if "value: --allow" in path.read_text()}
    assert arguments == {"gpu-rdma"}
    allowing = [each["metadata"]["name"] for each in documents("Namespace") if "disttest.dev/allow" in str(each)]
    assert set(allowing) == LEAVES_RESTRICTED


@pytest.mark.parametrize("template", pod_templates(), ids=lambda template: template["spec"]["containers"][0]["name"])
def test_every_pod_says_what_it_may(template: Manifest) -> None:
    spec = template["spec"]
    assert spec["automountServiceAccountToken"] is True, "said aloud: its ServiceAccount may say no one day"
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert not container["image"].endswith(":latest")
        assert ":" in container["image"]


def test_pods_of_the_version_before_still_get_the_tokens_that_they_do_not_ask_for() -> None:
    """After `kubectl rollout undo`, and where they are replaced between two steps of an upgrade."""
    assert not any("automountServiceAccountToken" in each for each in documents("ServiceAccount"))


def test_every_policy_refuses_and_fails_closed() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in documents("ValidatingAdmissionPolicy")}
    bindings = {each["spec"]["policyName"]: each["spec"] for each in documents("ValidatingAdmissionPolicyBinding")}
    assert policies.keys() == bindings.keys()
    for name, policy in policies.items():
        assert policy["failurePolicy"] == "Fail", name
        assert bindings[name]["validationActions"] == ["Deny"]
        assert "matchResources" not in bindings[name], "in every namespace"
        for rule in policy["validations"]:
            assert "messageExpression" in rule, name


def test_all_policies_of_the_operator_mean_the_same_account() -> None:
    conditions = {
        condition["expression"]
        for policy in documents("ValidatingAdmissionPolicy")
        for condition in policy["spec"]["matchConditions"]
        if policy["metadata"]["name"] != "disttest-authors"
    }
    assert len(conditions) == 1
