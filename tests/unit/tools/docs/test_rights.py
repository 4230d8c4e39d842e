"""The list of docs/operating/security.md: each right of the manifests has a reason, each reason has a right."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.operators import documented_rights
from tools.docs import PageError, permissions
from tools.docs import __main__ as documents
from tools.docs.permissions import ASKED_BY_ADMISSION, REASONS, Right

ROLES = documents.roles()


def a_role(*rules: dict[str, Any], name: str = "some") -> dict[str, Any]:
    return {"kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}, "get pods/log"),
        ({"apiGroups": ["a.b"], "resources": ["things/status"], "verbs": ["get"]}, "get things.a.b/status"),
        ({"apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"], "verbs": ["get"]}, "get pods 'x'"),
        ({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}, "get /metrics"),
    ],
)
def test_a_rule_is_one_permission_per_verb(rule: dict[str, Any], words: str) -> None:
    assert [right.words for right in permissions.of_role(a_role(rule))] == [words]


@pytest.mark.parametrize("wild", ["apiGroups", "resources", "verbs"])
def test_a_wildcard_is_refused(wild: str) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]} | {wild: ["*"]}
    with pytest.raises(PageError, match="write what is meant"):
        permissions.of_role(a_role(rule))


def test_the_page_lists_the_permissions_of_each_role() -> None:
    written = {
        (row.role, row.right) for row in documented_rights.read(Path(documents.ROOT / documents.SECURITY).read_text())
    }
    assert written == {(name, right) for name, found in permissions.of_roles(ROLES).items() for right in found}


def test_permissions_that_only_admission_checks_are_marked() -> None:
    rows = documented_rights.read(permissions.page(f"{permissions.BEGIN}{permissions.END}", ROLES))
    marked = {(row.role, row.right.words) for row in rows if row.is_asked_by_admission}
    assert marked == {("disttest-operator", words) for words in ASKED_BY_ADMISSION}


def test_a_permission_without_a_reason_and_a_reason_without_a_permission_are_errors() -> None:
    name = "disttest-operator-suspects"
    others = [role for role in ROLES if role["metadata"]["name"] != name]
    other = a_role({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}, name=name)
    with pytest.raises(PageError) as caught:
        permissions.listing([*others, other])
    assert f"without a reason: get secrets of {name}; reasons without a permission: patch nodes of {name}" in str(
        caught.value
    )


def test_a_role_without_reasons_is_an_error() -> None:
    with pytest.raises(PageError, match="disttest-more"):
        permissions.listing([*ROLES, a_role(name="disttest-more")])


def test_a_page_that_lost_its_marks_is_an_error() -> None:
    with pytest.raises(PageError, match="marks"):
        permissions.page("# Security", ROLES)


def test_no_role_can_read_secrets_or_run_commands_in_pods() -> None:
    found = {right for role in ROLES for right in permissions.of_role(role)}
    never = ("secrets", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token")
    assert not [right.words for right in found if right.resource in never]
    assert Right("pods", "create") not in found
    assert REASONS.keys() == permissions.of_roles(ROLES).keys()
