"""Checks of the installation: API server, CRDs, permissions of the user, the operator's Lease and Deployment."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from disttest_cli import fields
from disttest_cli.doctor.check import Check, CheckedNamespace, ok, problem, unknown, warning
from disttest_cli.fields import mapping, rows, text
from disttest_cli.kube.client import Body
from disttest_cli.kube.error_advice import INSTALLING
from disttest_contract.text import formatting
from disttest_operator.config.flags import FLAGS
from disttest_operator.core.api import schema, spec_schema
from disttest_operator.core.api.api_errors import NotFoundError
from disttest_operator.core.api.model import API_VERSION, GROUP
from disttest_operator.core.api.resources import Kind

API_SERVER, KINDS, RIGHTS = "API server", "DistTests", "Permissions"
PLURALS = ("disttests", "disttestseries")
CRDS = "kubectl apply --server-side -k manifests/crd"
SHOWN = 8

# (verb, group, resource, subresource) -> commands that need it; empty if all do.
WANTED: Mapping[tuple[str, str, str, str], str] = {
    ("get", GROUP, "disttests", ""): "",
    ("list", GROUP, "disttests", ""): "",
    ("watch", GROUP, "disttests", ""): "apply --wait",
    ("create", GROUP, "disttests", ""): "apply",
    ("list", GROUP, "disttestseries", ""): "history",
    ("get", "", "configmaps", ""): "report, compare",
    ("list", "", "pods", ""): "logs",
    ("get", "", "pods", "log"): "logs",
    ("list", "", "events", ""): "events in describe",
}


def api_server(checked: CheckedNamespace) -> list[Check]:
    version = text(checked.server.ask("/version").get("gitVersion"))
    return ok(API_SERVER, f"Kubernetes {version} at {checked.server.server}")


def kinds(checked: CheckedNamespace) -> list[Check]:
    try:
        found = rows(checked.server.ask(f"/apis/{API_VERSION}").get("resources"))
    except NotFoundError:
        return problem(KINDS, "not installed in this cluster", f"see {INSTALLING}")
    names = {text(row.get("name")) for row in found}
    if missing := [plural for plural in PLURALS if plural not in names]:
        return problem(KINDS, f"missing in the API server: {', '.join(missing)}", CRDS)
    return judge_schema(checked.server.ask(f"/openapi/v3/apis/{API_VERSION}"))


def judge_schema(document: Body) -> list[Check]:
    """Compare fields by the published OpenAPI schema, which users may read without permission to read CRDs."""
    schemas = mapping(mapping(document.get("components")).get("schemas"))
    kind = next((one for key, one in schemas.items() if key.endswith(".DistTest")), None)
    properties = mapping(mapping(kind).get("properties"))
    there = set(_published(mapping(properties.get("spec")), ""))
    if not there:
        return warning(
            KINDS, f"installed ({API_VERSION}), but their fields are not published yet", "try again in a minute"
        )
    known = set(_known(spec_schema.SPEC, ""))
    if older := sorted(known - there):
        words = f"the cluster's CRD is older than this command line and does not contain {_named(older)}"
        return problem(KINDS, words, f"{CRDS} of this version")
    if newer := sorted(there - known):
        words = f"the cluster's CRD is newer than this command line, which does not support {_named(newer)}"
        return warning(KINDS, words, "install the same version of the command line as of the operator")
    status = mapping(mapping(properties.get("status")).get("properties"))
    if "progress" not in status:
        words = "the cluster's CRD has no status.progress, so the progress of runs is not visible"
        return warning(KINDS, words, f"{CRDS} of this version")
    return ok(KINDS, f"installed ({API_VERSION}), with all {len(known)} fields of spec that this command line supports")


def rights(checked: CheckedNamespace) -> list[Check]:
    """One review each, since a SelfSubjectRulesReview may be incomplete."""
    refused = [one for one in WANTED if not _may(checked, one)]
    return judge_rights(refused, checked.namespace)


def judge_rights(refused: Sequence[tuple[str, str, str, str]], namespace: str) -> list[Check]:
    if not refused:
        return ok(RIGHTS, f"all commands are allowed in namespace {namespace}")
    words = ", ".join(f"{verb} {resource}{f'/{sub}' if sub else ''}" for verb, _, resource, sub in refused)
    without = dict.fromkeys(WANTED[one] for one in refused)
    role = "edit (which includes disttest-edit)" if any(one[0] == "create" for one in refused) else "view"
    advice = f"ask an administrator for the ClusterRole {role} in namespace {namespace}"
    if "" in without:
        return problem(RIGHTS, f"missing in namespace {namespace}: {words}", advice)
    words = f"missing in namespace {namespace}: {words}; required by: {', '.join(without)}"
    return warning(RIGHTS, words, f"if you use these commands, {advice}")


def _may(checked: CheckedNamespace, request: tuple[str, str, str, str]) -> bool:
    verb, group, resource, subresource = request
    named = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": checked.namespace, **named}},
    }
    answer = checked.server.review(Kind.SELF_ACCESS_REVIEW, review)
    return fields.status(answer).get("allowed") is True


def _known(rule: schema.Rule, path: str) -> Iterator[str]:
    """Paths of fields; those of a list are of its items."""
    match rule:
        case schema.Object(fields=fields):
            for name, inner in fields.items():
                yield f"{path}{name}"
                yield from _known(inner, f"{path}{name}.")
        case schema.ListOf(item=item):
            yield from _known(item, path)
        case _:
            pass


def _published(rule: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in mapping(rule.get("properties")).items():
        yield f"{path}{name}"
        yield from _published(mapping(inner), f"{path}{name}.")
    if items := mapping(rule.get("items")):
        yield from _published(items, path)


def _named(paths: Sequence[str]) -> str:
    return formatting.listed([f"spec.{path}" for path in paths], SHOWN)


OPERATOR, LEASE, IMAGE = "Operator", "Lease", "Runner image"
NAME = "disttest-operator"
FRESH_SECONDS = 60  # the Lease is renewed every 5 s; clocks of machines differ
ELSEWHERE = "if the operator is in another namespace, use --operator-namespace"
FLAG = {flag.name: flag for flag in FLAGS}


def lease(checked: CheckedNamespace) -> list[Check]:
    body = checked.server.get(Kind.LEASE, checked.operator_namespace, NAME)
    return judge_lease(body, checked.operator_namespace, datetime.now(UTC))


def judge_lease(body: Body | None, namespace: str, now: datetime) -> list[Check]:
    start = f"check the pod and log of the operator (kubectl get pods -n {namespace}); {ELSEWHERE}"
    if body is None:
        return problem(LEASE, f"no operator is active: Lease {NAME} does not exist in namespace {namespace}", start)
    spec = fields.spec(body)
    holder = fields.text(spec.get("holderIdentity"))
    if not holder:
        return problem(LEASE, "no operator is active: the last one released the Lease", start)
    renewed = fields.moment(spec.get("renewTime"))
    age = formatting.show_age(renewed, now) or "an unknown time"
    if renewed is None or (now - renewed).total_seconds() > FRESH_SECONDS:
        return problem(LEASE, f"no operator is active: {holder} renewed the Lease last {age} ago", start)
    return ok(LEASE, f"held by {holder}, renewed {age} ago")


def deployment(checked: CheckedNamespace) -> list[Check]:
    body = checked.server.get(Kind.DEPLOYMENT, checked.operator_namespace, NAME)
    if body is not None:
        return judge_deployment(body, checked.namespace)
    held = checked.server.get(Kind.LEASE, checked.operator_namespace, NAME)
    words = f"no Deployment {NAME} in namespace {checked.operator_namespace}"
    if held and fields.spec(held).get("holderIdentity"):
        return [
            *warning(OPERATOR, f"{words}, but the Lease has a holder, which runs elsewhere", ELSEWHERE),
            *_image(""),
        ]
    return problem(OPERATOR, words, f"see {INSTALLING}; {ELSEWHERE}")


def judge_deployment(body: Body, namespace: str) -> list[Check]:
    containers = fields.rows(fields.spec(fields.spec(body).get("template")).get("containers"))
    return [*_replicas(body, containers, namespace), *_image(said(containers, "runner-image"))]


def _replicas(body: Body, containers: Sequence[Mapping[str, Any]], namespace: str) -> list[Check]:
    wanted = fields.count(fields.spec(body).get("replicas", 1))
    ready = fields.count(fields.status(body).get("readyReplicas"))
    image = ", ".join(fields.text(container.get("image")) for container in containers)
    where = fields.namespace(body)
    words = f"{ready} of {wanted} replicas ready, image {image}"
    if not wanted:
        return problem(OPERATOR, words, f"kubectl -n {where} scale deploy/{NAME} --replicas=1")
    if not ready:
        look = f"kubectl -n {where} describe deploy/{NAME}; kubectl -n {where} logs deploy/{NAME}"
        return problem(OPERATOR, words, look)
    watched = [one.strip() for one in said(containers, "namespaces").split(",") if one.strip()]
    if watched and namespace not in watched:
        words += f"; it watches only {', '.join(watched)}, not {namespace}"
        return problem(OPERATOR, words, f"use another namespace, or add {namespace} to --namespaces of the operator")
    if ready < wanted:
        return warning(OPERATOR, words, f"kubectl -n {where} get pods")
    return ok(OPERATOR, words)


def said(containers: Sequence[Mapping[str, Any]], name: str) -> str:
    """A flag's value from the arguments or environment of containers; empty if unset."""
    flag = FLAG[name]
    for container in containers:
        words = [*fields.texts(container.get("command")), *fields.texts(container.get("args"))]
        for place, word in enumerate(words):
            if word.startswith(f"--{name}="):
                return word.partition("=")[2]
            if word == f"--{name}" and words[place + 1 :]:
                return words[place + 1]
        for entry in fields.rows(container.get("env")):
            if entry.get("name") == flag.variable:
                return fields.text(entry.get("value"))
    return ""


def _image(image: str) -> list[Check]:
    named = f"{image} " if image else ""
    return unknown(IMAGE, f"{named}is pulled by the nodes of a run; if that fails, the reason is ImageUnavailable")
