"""The operator: whether one acts, which it is, and what it does not look at."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from disttest_cli.checkup.check import Check, Place, ok, problem, unknown, warning
from disttest_cli.kube import resources
from disttest_cli.kube.cluster import Body
from disttest_cli.words import lenient
from disttest_contract import spans
from disttest_operator.flags import FLAGS

OPERATOR, LEASE, IMAGE = "Operator", "Lease", "Runner image"
NAME = "disttest-operator"
FRESH_SECONDS = 60  # renewed every five; clocks of machines differ
ELSEWHERE = "name its namespace with --operator-namespace if it is elsewhere"
FLAG = {flag.name: flag for flag in FLAGS}


def lease(place: Place) -> list[Check]:
    body = place.server.get(resources.LEASES, place.operator_namespace, NAME)
    return judge_lease(body, place.operator_namespace, datetime.now(UTC))


def judge_lease(body: Body | None, namespace: str, now: datetime) -> list[Check]:
    start = (
        f"kubectl get pods -n {namespace}: is an operator there, and what does its log say? {ELSEWHERE.capitalize()}"
    )
    if body is None:
        return problem(LEASE, f"no operator has ever acted: there is no Lease {NAME} in namespace {namespace}", start)
    spec = lenient.spec(body)
    holder = lenient.text(spec.get("holderIdentity"))
    if not holder:
        return problem(LEASE, "no operator acts: the last one has given the Lease back", start)
    renewed = lenient.moment(spec.get("renewTime"))
    age = spans.since(renewed, now) or "an unknown time"
    if renewed is None or (now - renewed).total_seconds() > FRESH_SECONDS:
        return problem(LEASE, f"no operator acts: {holder} has renewed the Lease last {age} ago", start)
    return ok(LEASE, f"held by {holder}, renewed {age} ago")


def deployment(place: Place) -> list[Check]:
    body = place.server.get(resources.DEPLOYMENTS, place.operator_namespace, NAME)
    if body is not None:
        return judge_deployment(body, place.namespace)
    held = place.server.get(resources.LEASES, place.operator_namespace, NAME)
    words = f"no Deployment {NAME} in namespace {place.operator_namespace}"
    if held and lenient.spec(held).get("holderIdentity"):
        return [*warning(OPERATOR, f"{words}; the one that holds the Lease runs outside of it", ELSEWHERE), *_image("")]
    return problem(OPERATOR, words, f"kubectl apply -k manifests/base, or {ELSEWHERE}")


def judge_deployment(body: Body, namespace: str) -> list[Check]:
    spec, status = lenient.spec(body), lenient.status(body)
    wanted, ready = lenient.count(spec.get("replicas", 1)), lenient.count(status.get("readyReplicas"))
    containers = lenient.rows(lenient.spec(spec.get("template")).get("containers"))
    image = ", ".join(lenient.text(container.get("image")) for container in containers)
    where = lenient.text(lenient.metadata(body).get("namespace"))
    words = f"{ready} of {wanted} replicas ready, image {image}"
    of_runner = _image(said(containers, "runner-image"))
    if not wanted or not ready:
        look = f"kubectl -n {where} describe deploy/{NAME}; kubectl -n {where} logs deploy/{NAME}"
        return [
            *problem(OPERATOR, words, look if wanted else f"kubectl -n {where} scale deploy/{NAME} --replicas=1"),
            *of_runner,
        ]
    watched = [one.strip() for one in said(containers, "namespaces").split(",") if one.strip()]
    if watched and namespace not in watched:
        told = f"{words}; it looks at {', '.join(watched)} only, not at {namespace}"
        return [*problem(OPERATOR, told, f"use another namespace, or add {namespace} to its --namespaces"), *of_runner]
    if ready < wanted:
        return [*warning(OPERATOR, words, f"kubectl -n {where} get pods"), *of_runner]
    return [*ok(OPERATOR, words), *of_runner]


def said(containers: Sequence[Mapping[str, Any]], name: str) -> str:
    """What the operator is told for a flag, by its arguments or its environment; nothing for its default."""
    flag = FLAG[name]
    for container in containers:
        words = [*lenient.texts(container.get("command")), *lenient.texts(container.get("args"))]
        for place, word in enumerate(words):
            if word.startswith(f"--{name}="):
                return word.partition("=")[2]
            if word == f"--{name}" and words[place + 1 :]:
                return words[place + 1]
        for entry in lenient.rows(container.get("env")):
            if entry.get("name") == flag.variable:
                return lenient.text(entry.get("value"))
    return ""


def _image(image: str) -> list[Check]:
    named = f"{image} " if image else ""
    return unknown(IMAGE, f"{named}is pulled by nodes, and only they can tell: a run that cannot have it says so")
