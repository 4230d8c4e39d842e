"""Checks the audit logs of all integration tests: every permission was used, and no request was rejected unexpectedly.

`make test` runs this after tests/integration, when none has failed, with the logs of all clusters that these had. The
same is held on real nodes by tests/e2e/test_audit.py.
"""

import os
from pathlib import Path

import pytest

from tests.support.clusters import audit
from tests.support.clusters.audit import AuditedRequest
from tests.support.operators import documented_rights
from tools.docs.__main__ import ROOT, SECURITY
from tools.docs.permissions import REASONS

NAMESPACED = f"{audit.ACCOUNT}disttest-namespaced:disttest-operator"
BEFORE = f"{audit.ACCOUNT}disttest-before:disttest-operator"
ACCOUNTS = ("disttest-operator", "disttest-nightly")  # in whatever namespace

# Rights that tests take away on purpose, from whom.
TAKEN_AWAY = {
    (NAMESPACED, "list nodes"): "test_namespaced: an operator with Roles only",
    (NAMESPACED, "create tokenreviews.authentication.k8s.io"): "test_namespaced: until an administrator grants it",
    (BEFORE, "list cronjobs.batch"): "test_schedules: one that was upgraded without its new rights",
}
COPIED = "disttest-operator-metrics-disttest-namespaced"  # what it grants there
PEOPLE = frozenset({"viewer", "unprivileged"})  # users of the command line in test_commands
DEFAULT_ASKS = frozenset({"selfsubjectreviews.authentication.k8s.io", "pods"})  # test_devcluster: who am I, what may I
WITHOUT_ITS_RIGHT = "has no permission to get ConfigMap own"  # test_nightly: the policy for authors
IN_PASSING = "because it is being terminated"  # of a test that has ended, with its namespace and an operator at work


@pytest.fixture(scope="module")
def asked() -> list[AuditedRequest]:
    """By ServiceAccounts and anonymous clients, in all clusters."""
    folder = os.environ.get(audit.FOLDER)
    if not folder:
        pytest.skip(f"{audit.FOLDER} names no folder with audit logs: this is for `make test`")
    found = [request for state in sorted(Path(folder).iterdir()) for request in audit.requests(state)]
    if not found:
        pytest.skip("no cluster of ours was there for the integration tests")
    return [request for request in found if not is_of_a_test(request)]


def is_of_a_night_without_its_right(request: AuditedRequest) -> bool:
    return request.user.endswith(":disttest-nightly") and WITHOUT_ITS_RIGHT in request.message


def is_of_a_test(request: AuditedRequest) -> bool:
    """Sent by a test itself, as another user."""
    account = request.user.rpartition(":")[2]
    by_default = request.role in audit.OF_EVERYBODY or request.right.resource in DEFAULT_ASKS
    return account in PEOPLE or (account == "default" and by_default)


def test_every_right_was_used_but_those_that_only_admission_asks_for(asked: list[AuditedRequest]) -> None:
    rows = [
        row
        for row in documented_rights.read((ROOT / SECURITY).read_text())
        if row.role not in documented_rights.OF_PEOPLE
    ]
    never = audit.unused({(row.role, row.right) for row in rows}, audit.used(asked))
    assert audit.as_text(never) == audit.as_text((row.role, row.right) for row in rows if row.is_asked_by_admission)


def test_only_requests_without_rights_that_tests_take_away_were_refused(asked: list[AuditedRequest]) -> None:
    refused = [one for one in audit.refused(asked) if not (one.is_allowed and IN_PASSING in one.message)]
    by_policy = [one for one in refused if one.is_allowed and is_of_a_night_without_its_right(one)]
    assert by_policy, "what is expected here has to happen"
    refused = [one for one in refused if one not in by_policy]
    unexpected = [one for one in refused if (one.user, f"{one.right.verb} {one.right.resource}") not in TAKEN_AWAY]
    assert audit.as_text(unexpected) == ""
    met = {(one.user, f"{one.right.verb} {one.right.resource}") for one in refused}
    assert TAKEN_AWAY.keys() == met, "what is expected here has to happen"


def test_nothing_was_allowed_by_a_role_that_is_not_in_the_documentation(asked: list[AuditedRequest]) -> None:
    assert audit.as_text(audit.by_other_roles(asked, {*REASONS, COPIED, *audit.OF_EVERYBODY})) == ""


def test_only_operators_and_nightly_pods_sent_requests(asked: list[AuditedRequest]) -> None:
    others = [one for one in asked if one.user.rpartition(":")[2] not in ACCOUNTS]
    assert audit.as_text(others) == ""
