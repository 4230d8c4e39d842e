"""Checks of where runs are placed: the namespace, its quota and limits, nodes, queues and monitoring."""

from collections.abc import Mapping, Sequence
from typing import Any

from disttest_cli import fields
from disttest_cli.doctor.check import Check, CheckedNamespace, ok, problem, warning
from disttest_cli.kube.client import Body
from disttest_operator.core.api import scheduler
from disttest_operator.core.api.api_errors import NotFoundError
from disttest_operator.core.api.resources import Kind, Resource

NAMESPACE, QUOTA, RANGES = "Namespace", "Quota", "Limit ranges"
NODES, KUEUE, PROMETHEUS = "Nodes", "Kueue", "Prometheus"
ENFORCE = "pod-security.kubernetes.io/enforce"
PRODUCTS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
PROMETHEUS_GROUP = "monitoring.coreos.com"
SHOWN = 8


def namespace(checked: CheckedNamespace) -> list[Check]:
    body = checked.server.get(Kind.NAMESPACE, "", checked.namespace)
    if body is None:
        return problem(
            NAMESPACE, f"{checked.namespace} does not exist", f"kubectl create namespace {checked.namespace}"
        )
    if fields.status(body).get("phase") == "Terminating":
        return problem(NAMESPACE, f"{checked.namespace} is being deleted", "use another one with -n")
    level = fields.text(fields.mapping(fields.metadata(body).get("labels")).get(ENFORCE))
    return ok(NAMESPACE, f"{checked.namespace}; PodSecurity {level or 'privileged'}; runs comply with `restricted`")


def quota(checked: CheckedNamespace) -> list[Check]:
    return judge_quota(checked.server.list(Kind.QUOTA, checked.namespace))


def judge_quota(bodies: Sequence[Body]) -> list[Check]:
    """A resource is exhausted if its usage is written like its limit; quantities are not parsed."""
    full, limits = [], []
    for body in bodies:
        status = fields.status(body)
        used = fields.mapping(status.get("used"))
        for name, hard in fields.mapping(status.get("hard")).items():
            limits.append(f"{name} {fields.text(used.get(name)) or '0'} of {fields.text(hard)}")
            if fields.text(used.get(name)) == fields.text(hard) or fields.text(hard) == "0":
                full.append(f"{fields.name(body)}: {limits[-1]}")
    if full:
        return warning(
            QUOTA, f"exhausted: {', '.join(full[:SHOWN])}", "wait, delete unused objects, or request a larger quota"
        )
    return ok(QUOTA, ", ".join(limits[:SHOWN]) or "none")


def limit_ranges(checked: CheckedNamespace) -> list[Check]:
    names = [fields.name(body) for body in checked.server.list(Kind.LIMIT_RANGE, checked.namespace)]
    return ok(RANGES, f"{', '.join(names)}; they can set limits of pods without limits" if names else "none")


def nodes(checked: CheckedNamespace) -> list[Check]:
    return judge_nodes(checked.server.list(Kind.NODE), checked.gpu_resource)


def judge_nodes(bodies: Sequence[Body], gpu_resource: str) -> list[Check]:
    usable = [body for body in bodies if _is_usable(body)]
    gpus = {fields.name(body): _gpus(body, gpu_resource) for body in usable}
    having = {name: count for name, count in gpus.items() if count}
    sizes = ", ".join(
        f"{list(having.values()).count(size)} x {size}" for size in sorted(set(having.values()), reverse=True)
    )
    words = f"{len(usable)} of {len(bodies)} ready and schedulable; {gpu_resource}: {sum(having.values())}"
    words += f" ({sizes}{_products(usable)})" if having else ""
    if not usable:
        return problem(NODES, words, "kubectl get nodes; kubectl uncordon NODE")
    if not having:
        others = sorted(
            {name for body in usable for name in _allocatable(body) if "/" in name and "gpu" in name.lower()}
        )
        named = f"; for {', '.join(others)}, use --gpu-resource, and gpuResource in runs" if others else ""
        return warning(NODES, words, f"install the device plugin, or use CPUs with gpusPerNode: 0{named}")
    if len(usable) < len(bodies):
        away = [fields.name(body) for body in bodies if not _is_usable(body)]
        return warning(NODES, words, f"to use the other nodes: kubectl describe node {' '.join(away[:SHOWN])}")
    return ok(NODES, words)


def kueue(checked: CheckedNamespace) -> list[Check]:
    version = _version(checked, scheduler.API_GROUP)
    if not version:
        return ok(KUEUE, "not installed; do not set queueName in runs, since they would never start")
    queues = Resource(f"{scheduler.API_GROUP}/{version}", scheduler.QUEUE_RESOURCE)
    found = checked.server.list(queues, checked.namespace)
    if not found:
        advice = "create one, or do not set queueName in runs"
        return warning(KUEUE, f"installed, but namespace {checked.namespace} has no LocalQueue", advice)
    return ok(KUEUE, f"LocalQueues: {', '.join(fields.name(body) for body in found[:SHOWN])}")


def prometheus(checked: CheckedNamespace) -> list[Check]:
    if _version(checked, PROMETHEUS_GROUP):
        return ok(PROMETHEUS, "Prometheus operator is installed; use manifests/overlays/monitoring")
    return ok(
        PROMETHEUS,
        "Prometheus operator is not installed; configure rules and scrapes by file, see docs/operating/monitoring.md",
    )


def _version(checked: CheckedNamespace, group: str) -> str:
    try:
        preferred = checked.server.ask(f"/apis/{group}").get("preferredVersion")
    except NotFoundError:
        return ""
    return fields.text(fields.mapping(preferred).get("version"))


def _is_usable(body: Body) -> bool:
    conditions = fields.rows(fields.status(body).get("conditions"))
    is_ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return is_ready and fields.spec(body).get("unschedulable") is not True


def _allocatable(body: Body) -> Mapping[str, Any]:
    return fields.mapping(fields.status(body).get("allocatable"))


def _gpus(body: Body, gpu_resource: str) -> int:
    amount = fields.text(_allocatable(body).get(gpu_resource))
    return int(amount) if amount.isascii() and amount.isdecimal() else 0


def _products(bodies: Sequence[Body]) -> str:
    labels = [fields.mapping(fields.metadata(body).get("labels")) for body in bodies]
    names = dict.fromkeys(fields.text(one.get(key)) for one in labels for key in PRODUCTS if one.get(key))
    return f"; {', '.join(names)}" if names else ""
