"""Allowances: parsing, matching, and what a DistTest needs."""

from typing import Any

import pytest

from disttest_operator.core.api import allowances
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.parse import parse
from tests.data.good_manifest import ON_ITS_NODE

WHERE = "spec.template.spec"


def a_test(**pod: Any) -> DistTest:
    spec = {"suites": [{"name": "collectives"}], "template": {"spec": pod}}
    body = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": {"name": "a", "namespace": "ci"}}
    return parse(body | {"spec": spec}, Defaults(image="runner"))


def a_host_path(path: str) -> DistTest:
    return a_test(volumes=[{"name": "a", "hostPath": {"path": path}}])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("host-network", Allowance(kind="host-network")),
        ("ci/root", Allowance(kind="root", namespace="ci")),
        ("capability:IPC_LOCK", Allowance(kind="capability", value="IPC_LOCK")),
        ("host-path:/data/sets", Allowance(kind="host-path", value="/data/sets")),
        ("ci/host-path:/data/", Allowance(kind="host-path", value="/data", namespace="ci")),
        ("ci/service-account:a.b", Allowance(kind="service-account", value="a.b", namespace="ci")),
    ],
)
def test_an_item_is_read(item: str, expected: Allowance) -> None:
    read = allowances.parse(item, "--allow")
    assert read == expected
    assert allowances.parse(read.item, "--allow") == expected


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("", "must be [NAMESPACE/]WHAT, where WHAT is one of host-network, host-ipc"),
        ("*", "not '*'"),
        ("hostNetwork", "not 'hostNetwork'"),
        ("host-network:true", "not 'host-network:true'"),
        ("root:", "not 'root:'"),
        ("a/b/root", "not 'a/b/root'"),
        ("/root", "'/root': must be the name of a namespace before the '/'; or remove both"),
        ("*/root", "'*/root': must be the name of a namespace"),
        ("capability:*", "'capability:*': must be one of AUDIT_CONTROL"),
        ("capability:ALL", "not 'ALL'"),
        ("capability", "must be one of AUDIT_CONTROL"),
        ("host-path:data", "must be an absolute path"),
        ("host-path:/a/../b", "without '..'"),
        ("host-path:/", "must have at least 2 character"),
        ("host-path:", "must have at least 2 character"),
        ("service-account:*", "must be the name of a ServiceAccount"),
    ],
)
def test_a_wrong_item_is_refused_with_a_sentence(item: str, says: str) -> None:
    with pytest.raises(ValueError, match="--allow: ") as caught:
        allowances.parse(item, "--allow")
    assert says in str(caught.value)


NEEDS = {
    "nothing": ({}, []),
    "false": ({"hostNetwork": False, "hostIPC": False, "hostPID": False}, []),
    "the default account": ({"serviceAccountName": "default"}, []),
    "a user": ({"securityContext": {"runAsUser": 1000}}, []),
    "volumes that anybody may have": ({"volumes": ON_ITS_NODE["volumes"][1:]}, []),
    "privileged": ({"securityContext": {"privileged": True}}, [("securityContext.privileged", "ci/privileged")]),
    "an account": ({"serviceAccountName": "me"}, [("serviceAccountName", "ci/service-account:me")]),
    "all": (
        ON_ITS_NODE,
        [
            ("hostNetwork", "ci/host-network"),
            ("hostIPC", "ci/host-ipc"),
            ("hostPID", "ci/host-pid"),
            ("securityContext.runAsUser", "ci/root"),
            ("securityContext.capabilities.add", "ci/capability:IPC_LOCK"),
            ("securityContext.capabilities.add", "ci/capability:SYS_NICE"),
            ("volumes[0].hostPath.path", "ci/host-path:/dev/infiniband"),
        ],
    ),
}


@pytest.mark.parametrize(("pod", "expected"), NEEDS.values(), ids=NEEDS.keys())
def test_a_disttest_needs_an_allowance_for_each_thing_beyond_restricted(
    pod: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    test = a_test(**pod)
    assert [(path, need.item) for path, need in allowances.needs(test)] == [
        (f"{WHERE}.{path}", item) for path, item in expected
    ]
    everything = tuple(allowances.parse(item, "") for _, item in expected)
    assert allowances.refusals(test, everything) == ()
    for missing in set(everything):
        rest = tuple(one for one in everything if one != missing)
        [sentence] = allowances.refusals(test, rest)
        assert f"ask an administrator for --allow={missing.item} (docs/operating/security.md)" in sentence


def test_a_refusal_names_the_field_the_item_and_the_page() -> None:
    [sentence] = allowances.refusals(a_test(hostNetwork=True), ())
    assert sentence == (
        "spec.template.spec.hostNetwork: the operator does not allow this; remove it, or ask an administrator for"
        " --allow=ci/host-network (docs/operating/security.md)"
    )


@pytest.mark.parametrize(
    ("allowed", "path", "holds"),
    [
        ("host-path:/data", "/data", True),
        ("host-path:/data/", "/data/sets", True),
        ("ci/host-path:/data", "/data/a/b", True),
        ("other/host-path:/data", "/data", False),
        ("host-path:/data", "/database", False),
        ("host-path:/data", "/dat", False),
        ("host-path:/data/sets", "/data", False),
        ("host-path:/data", "/a/data", False),
    ],
)
def test_a_path_is_allowed_by_its_parts(allowed: str, path: str, holds: bool) -> None:  # noqa: FBT001  # a column of the table
    assert (allowances.refusals(a_host_path(path), (allowances.parse(allowed, ""),)) == ()) is holds


@pytest.mark.parametrize("allowed", ["capability:SYS_NICE", "privileged", "root", "other/capability:IPC_LOCK"])
def test_one_thing_does_not_allow_another(allowed: str) -> None:
    test = a_test(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})
    assert allowances.refusals(test, (allowances.parse(allowed, ""),))
