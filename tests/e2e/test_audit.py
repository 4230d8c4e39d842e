"""Checks the API server's audit log: every permission was used, no request was rejected, no other client sent any.

These tests are the last of the session, and judge all of it. They use every right themselves, so that they say the same
when they are run alone.
"""

import json
from pathlib import Path

import pytest

from tests.support.clusters import audit
from tests.support.clusters.audit import AuditedRequest, Granted
from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.real_nodes import NAMESPACE, SYSTEM
from tests.support.operators import documented_rights, every_right
from tests.support.operators.operator import config_map, disttest, finished
from tools.docs.__main__ import ROOT, SECURITY
from tools.docs.permissions import REASONS

OPERATOR = f"{audit.ACCOUNT}{SYSTEM}:disttest-operator"
NIGHTLY = f"{audit.ACCOUNT}{every_right.NIGHTS}:disttest-nightly"
OF_SCRAPERS = "disttest-metrics-reader"
DOCUMENTED = documented_rights.read(Path(ROOT / SECURITY).read_text())
KINDS = "clusterroles,clusterrolebindings,roles,rolebindings"

# Seen from inside a pod of a run: no token anywhere, and no address of a Service but the one of the API server itself,
# which every kubelet tells every container.
KEYLESS = """
import os
import pathlib

def test_there_is_no_token_of_the_api():
    assert not pathlib.Path("/var/run/secrets/kubernetes.io").exists()
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    assert "serviceaccount" not in mounts

def test_no_address_of_another_service_is_set():
    services = {name for name in os.environ if name.endswith("_SERVICE_HOST")}
    assert services <= {"KUBERNETES_SERVICE_HOST"}
"""


@pytest.fixture(scope="module")
def all_are_used(
    installed: SessionCluster, stub_nodes: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    installed.apply(config_map(NAMESPACE, "keyless", KEYLESS))
    suites = [{"name": "own", "configMap": {"name": "keyless"}}]
    installed.apply(disttest(NAMESPACE, "keyless", suites=suites, nodes=1, ranksPerNode=1))
    every_right.use(installed, tmp_path_factory.mktemp("nightly"))


def test_a_pod_of_a_run_finds_no_token(installed: SessionCluster, all_are_used: None) -> None:
    status = finished(installed, NAMESPACE, "keyless", 120)
    assert (status["verdict"], status["cases"]["passed"]) == ("Passed", 2), status.get("failures")


@pytest.fixture(scope="module")
def asked(installed: SessionCluster, all_are_used: None) -> list[AuditedRequest]:
    """By ServiceAccounts and anonymous clients, since the start of the cluster."""
    assert installed.dev is not None
    return audit.requests(installed.dev.state)


@pytest.fixture(scope="module")
def granted(installed: SessionCluster, asked: list[AuditedRequest]) -> set[Granted]:
    """By all existing roles and bindings."""
    found = json.loads(installed.kubectl("get", KINDS, "--all-namespaces", "-o", "json"))["items"]
    return audit.granted(found, OPERATOR, NIGHTLY)


def test_the_rights_that_are_there_are_those_of_the_documentation(granted: set[Granted]) -> None:
    documented = {
        (row.role, row.right) for row in DOCUMENTED if row.role not in {*documented_rights.OF_PEOPLE, OF_SCRAPERS}
    }
    assert audit.as_text(granted) == audit.as_text(documented)


def test_every_right_was_used_but_those_that_only_admission_asks_for(asked: list[AuditedRequest]) -> None:
    ours = [row for row in DOCUMENTED if row.role not in documented_rights.OF_PEOPLE]
    never = audit.unused({(row.role, row.right) for row in ours}, audit.used(asked))
    assert audit.as_text(never) == audit.as_text((row.role, row.right) for row in ours if row.is_asked_by_admission)


def test_no_request_was_refused(asked: list[AuditedRequest]) -> None:
    assert audit.as_text(audit.refused(asked)) == ""


def test_nothing_was_allowed_by_a_role_that_is_not_in_the_documentation(asked: list[AuditedRequest]) -> None:
    assert audit.as_text(audit.by_other_roles(asked, {*REASONS, *audit.OF_EVERYBODY})) == ""


def test_only_the_operator_and_nightly_pods_sent_requests(asked: list[AuditedRequest]) -> None:
    assert audit.as_text(audit.strangers(asked, {OPERATOR, NIGHTLY})) == ""
    assert {request.user for request in asked} == {OPERATOR, NIGHTLY}
