"""The API server, the kinds of DistTests, and what the user may do with them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from disttest_cli.checkup.check import Check, Place, ok, problem, warning
from disttest_cli.kube import resources
from disttest_cli.kube.cluster import Body, MissingError
from disttest_cli.kube.connecting import INSTALL
from disttest_cli.words import lenient
from disttest_operator.core import schema, spec_schema
from disttest_operator.core.model import API_VERSION, GROUP

API_SERVER, KINDS, RIGHTS = "API server", "DistTests", "Rights"
PLURALS = ("disttests", "disttestseries")
CRDS = "kubectl apply --server-side -k manifests/crd"
SHOWN = 8

# (verb, group, resource, subresource): what does not work without it; the first ones are what nothing works without.
WANTED: Mapping[tuple[str, str, str, str], str] = {
    ("get", GROUP, "disttests", ""): "",
    ("list", GROUP, "disttests", ""): "",
    ("watch", GROUP, "disttests", ""): "apply --wait",
    ("create", GROUP, "disttests", ""): "apply",
    ("list", GROUP, "disttestseries", ""): "history",
    ("get", "", "configmaps", ""): "report, compare",
    ("list", "", "pods", ""): "logs",
    ("get", "", "pods", "log"): "logs",
    ("list", "", "events", ""): "the events of describe",
}


def api_server(place: Place) -> list[Check]:
    version = lenient.text(place.server.ask("/version").get("gitVersion"))
    return ok(API_SERVER, f"Kubernetes {version} at {place.server.server}")


def kinds(place: Place) -> list[Check]:
    try:
        found = lenient.rows(place.server.ask(f"/apis/{API_VERSION}").get("resources"))
    except MissingError:
        return problem(KINDS, "are not installed there", INSTALL.partition(": ")[2])
    names = {lenient.text(row.get("name")) for row in found}
    if missing := [plural for plural in PLURALS if plural not in names]:
        return problem(KINDS, f"the API server does not have {', '.join(missing)}", CRDS)
    return judge_schema(place.server.ask(f"/openapi/v3/apis/{API_VERSION}"))


def judge_schema(document: Body) -> list[Check]:
    """Which fields both know, by the API server's own description: it may be read without a right to see CRDs."""
    schemas = lenient.mapping(lenient.mapping(document.get("components")).get("schemas"))
    kind = next((one for key, one in schemas.items() if key.endswith(".DistTest")), None)
    properties = lenient.mapping(lenient.mapping(kind).get("properties"))
    there = set(_published(lenient.mapping(properties.get("spec")), ""))
    if not there:
        return warning(
            KINDS, f"installed ({API_VERSION}), but their fields are not published yet", "ask again in a minute"
        )
    known = set(_known(spec_schema.SPEC, ""))
    if older := sorted(known - there):
        words = f"the cluster's CRD is older than this command line: it does not know {_named(older)}"
        return problem(KINDS, words, f"{CRDS} of this version")
    if newer := sorted(there - known):
        words = f"the cluster's CRD is newer than this command line, which does not know {_named(newer)}"
        return warning(KINDS, words, "install the command line of the operator's version")
    status = lenient.mapping(lenient.mapping(properties.get("status")).get("properties"))
    if "progress" not in status:
        words = "the cluster's CRD has no status.progress: nobody sees how far a run is"
        return warning(KINDS, words, f"{CRDS} of this version")
    return ok(KINDS, f"installed ({API_VERSION}), with all {len(known)} fields of spec that this command line knows")


def rights(place: Place) -> list[Check]:
    """Asked one by one: the list of all rules of a user may be incomplete."""
    refused = [one for one in WANTED if not _may(place, *one)]
    return judge_rights(refused, place.namespace)


def judge_rights(refused: Sequence[tuple[str, str, str, str]], namespace: str) -> list[Check]:
    if not refused:
        return ok(RIGHTS, f"all that the commands need in namespace {namespace}")
    words = ", ".join(f"{verb} {resource}{f'/{sub}' if sub else ''}" for verb, _, resource, sub in refused)
    without = dict.fromkeys(WANTED[one] for one in refused)
    role = "edit (with disttest-edit in it)" if any(one[0] == "create" for one in refused) else "view"
    advice = f"ask an administrator for the ClusterRole {role} in namespace {namespace}"
    if "" in without:
        return problem(RIGHTS, f"may not {words} in namespace {namespace}", advice)
    words = f"may not {words} in namespace {namespace}; does not work: {', '.join(without)}"
    return warning(RIGHTS, words, f"if you need that, {advice}")


def _may(place: Place, verb: str, group: str, resource: str, subresource: str) -> bool:
    attributes = {
        "namespace": place.namespace,
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = place.server.review(resources.ACCESS_REVIEWS, review)
    return lenient.status(answer).get("allowed") is True


def _known(rule: schema.Rule, path: str) -> Iterator[str]:
    """Paths of fields, of lists those of their elements."""
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
    for name, inner in lenient.mapping(rule.get("properties")).items():
        yield f"{path}{name}"
        yield from _published(lenient.mapping(inner), f"{path}{name}.")
    if items := lenient.mapping(rule.get("items")):
        yield from _published(items, path)


def _named(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - SHOWN} more" if len(fields) > SHOWN else ""
    return ", ".join(f"spec.{field}" for field in fields[:SHOWN]) + more
