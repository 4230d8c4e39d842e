"""A DistTest cannot access more than its author: the policy disttest-authors, on the real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.api import Api
from tests.support.clusters.cluster import Manifest

ROLES = "rbac.authorization.k8s.io"
PLAIN, TRUSTED, EDITOR, READER = "plain", "trusted", "editor", "reader"
ADVICE = (
    "requires permission to create pods in namespace {namespace}; remove it, or grant plain the verb use on"
    ' disttests.disttest.dev/template there (docs/operating/security.md, "Admission policies")'
)


def spec(*config_maps: str, **more: Any) -> Manifest:
    """One suite for each ConfigMap, or one that is built in."""
    own = [{"name": f"own-{place}", "configMap": {"name": name}} for place, name in enumerate(config_maps)]
    return {"suites": own or [{"name": "collectives"}], **more}


def template(**fields: Any) -> Manifest:
    return spec(template={"spec": fields})


# Id: the spec, and the message before the advice.
BEYOND = {
    "artifacts": (spec(artifacts={"persistentVolumeClaim": "dumps"}), "spec.artifacts"),
    "labels": (spec(template={"metadata": {"labels": {"a": "b"}}}), "spec.template.metadata"),
    "annotations": (spec(template={"metadata": {"annotations": {"a": "b"}}}), "spec.template.metadata"),
    "a ServiceAccount": (template(serviceAccountName="builder"), "spec.template.spec.serviceAccountName"),
    "a Secret of a registry": (template(imagePullSecrets=[{"name": "x"}]), "spec.template.spec.imagePullSecrets"),
    "a priority": (template(priorityClassName="high"), "spec.template.spec.priorityClassName"),
    "a runtime": (template(runtimeClassName="nvidia"), "spec.template.spec.runtimeClassName"),
}
FORBIDDEN_MAPS = {
    "a ConfigMap": (spec("other"), "spec.suites[].configMap: plain has no permission to get ConfigMap other"),
    "the second of two": (spec("readable", "other"), "plain has no permission to get ConfigMap readable or other"),
    "three": (
        spec("readable", "listed", "other"),
        "all ConfigMaps of the namespace, which DistTests with more than two ConfigMaps require",
    ),
    "a quarantine": (
        spec(quarantine={"configMap": {"name": "other"}}),
        "spec.quarantine.configMap: plain has no permission to get ConfigMap other",
    ),
}
ALLOWED = {
    "suites, image and environment": spec(image="example/own:1", env=[{"name": "A", "value": "b"}], nodes=4),
    "where it runs, and on how much": template(
        nodeSelector={"example.com/gpu": "h100"},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        resources={"requests": {"cpu": 32}},
        schedulerName="gang-scheduler",
    ),
    "an empty template": spec(template={}),
    "ConfigMaps that the author can get": spec("readable", "listed", quarantine={"configMap": {"name": "readable"}}),
    "one of them in many suites": spec(*["readable"] * 31),
}


def rights(namespace: str) -> Iterator[Manifest]:
    """All users can create DistTests here. Users with more permissions are named after them."""
    names = ["readable", "listed"]
    yield from _role(namespace, "author", {"apiGroups": ["disttest.dev"], "resources": ["disttests"]}, "create")
    yield from _role(namespace, "named-maps", {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": names})
    yield from _role(namespace, "maps", {"apiGroups": [""], "resources": ["configmaps"]})
    yield from (_bound(namespace, "author", user) for user in (PLAIN, TRUSTED, READER))
    yield from (_bound(namespace, "named-maps", user) for user in (PLAIN, TRUSTED))
    yield _bound(namespace, "maps", READER)
    yield _bound(namespace, "disttest-template-user", TRUSTED, kind="ClusterRole")
    yield _bound(namespace, "edit", EDITOR, kind="ClusterRole")


def _role(namespace: str, name: str, rule: Manifest, verb: str = "get") -> Iterator[Manifest]:
    metadata = {"name": name, "namespace": namespace}
    yield {"apiVersion": f"{ROLES}/v1", "kind": "Role", "metadata": metadata, "rules": [rule | {"verbs": [verb]}]}


def _bound(namespace: str, role: str, user: str, *, kind: str = "Role") -> Manifest:
    return {
        "apiVersion": f"{ROLES}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{user}", "namespace": namespace},
        "roleRef": {"apiGroup": ROLES, "kind": kind, "name": role},
        "subjects": [{"apiGroup": ROLES, "kind": "User", "name": user}],
    }


@pytest.fixture(scope="module")
def authors(api: Api, installed: Path) -> Api:
    """Policies and rights take a moment to become what they are."""
    api.cluster.apply([*rights(api.namespace)])
    api.cluster.wait_until("the policy refuses", lambda: tried(api, PLAIN, spec("other"))[0] == 403)
    for user in (PLAIN, TRUSTED, EDITOR, READER):
        api.cluster.wait_until(f"{user} may create", lambda who=user: tried(api, who, spec())[0] == 201)  # type: ignore[misc]
    return api


def tried(api: Api, user: str, wanted: Manifest) -> tuple[int, str]:
    kind = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": {"name": "mine"}}
    status, answer = api.request("POST", api.path(query="?dryRun=All"), kind | {"spec": wanted}, user=user)
    return status, answer.get("message", "")


@pytest.mark.parametrize("case", BEYOND.values(), ids=BEYOND.keys())
def test_what_needs_a_pod_of_ones_own_is_refused_to_who_may_not_create_pods(
    case: tuple[Manifest, str], authors: Api
) -> None:
    wanted, field = case
    status, message = tried(authors, PLAIN, wanted)
    assert status == 403
    sentence = f"DistTest {authors.namespace}/mine: {field} {ADVICE.format(namespace=authors.namespace)}"
    assert message.endswith(f"denied request: {sentence}")


@pytest.mark.parametrize("case", FORBIDDEN_MAPS.values(), ids=FORBIDDEN_MAPS.keys())
def test_configmaps_are_for_who_may_get_them(case: tuple[Manifest, str], authors: Api) -> None:
    wanted, words = case
    status, message = tried(authors, PLAIN, wanted)
    assert status == 403
    assert words in message
    assert message.endswith('; grant it (docs/operating/security.md, "Admission policies")')


@pytest.mark.parametrize("wanted", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_reaches_nothing_is_for_everybody(wanted: Manifest, authors: Api) -> None:
    assert tried(authors, PLAIN, wanted) == (201, "")


@pytest.mark.parametrize("user", [TRUSTED, EDITOR])
def test_who_may_create_pods_or_use_templates_is_held_to_nothing(user: str, authors: Api) -> None:
    assert [tried(authors, user, wanted) for wanted, _ in (*BEYOND.values(), *FORBIDDEN_MAPS.values())] == [
        (201, "")
    ] * (len(BEYOND) + len(FORBIDDEN_MAPS))


def test_an_author_with_permission_for_all_configmaps_may_name_any_number(authors: Api) -> None:
    assert tried(authors, READER, spec(*(f"map-{place}" for place in range(32)))) == (201, "")


def test_several_fields_are_named_at_once(authors: Api) -> None:
    wanted = template(priorityClassName="high", runtimeClassName="nvidia", schedulerName="fine")
    _, message = tried(authors, PLAIN, wanted)
    named = message.partition(": spec.template.spec.")[2].partition(" requires")[0]
    assert sorted(named.split(", ")) == ["priorityClassName", "runtimeClassName"]
