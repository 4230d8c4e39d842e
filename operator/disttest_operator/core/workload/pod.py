"""The pod template of a gang: one pod per node."""

from collections.abc import Mapping
from typing import Any

from disttest_contract.gang import environment
from disttest_contract.gang.quarantine import Lists
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import DistTest, Manifest, Placement
from disttest_operator.core.workload import containers, run_plan

ARTIFACTS = "artifacts"  # the volume's name
TEMPORARY = "/tmp"  # noqa: S108  # a path inside the container, on the pod's emptyDir


def volumes(test: DistTest) -> list[Manifest]:
    claim = test.spec.artifacts.persistent_volume_claim
    return [
        {"name": "tmp", "emptyDir": {}},
        {"name": "dshm", "emptyDir": {"medium": "Memory"}},  # the default of 64 MiB breaks NCCL and data loaders
        *containers.inject_volumes(test),
        *(
            {"name": _suite_volume(index), "configMap": {"name": suite.config_map}}
            for index, suite in enumerate(test.spec.suites)
            if suite.config_map
        ),
        *([{"name": ARTIFACTS, "persistentVolumeClaim": {"claimName": claim}}] if claim else []),
        *(dict(volume) for volume in test.spec.template.volumes),
    ]


def mounts(test: DistTest) -> list[Manifest]:
    claim, template = test.spec.artifacts.persistent_volume_claim, test.spec.template
    on_nodes = {volume["name"] for volume in template.volumes if "hostPath" in volume}
    return [
        {"name": "tmp", "mountPath": TEMPORARY},
        {"name": "dshm", "mountPath": "/dev/shm"},  # noqa: S108  # a path inside the container
        *containers.inject_mounts(test),
        *(
            {"name": _suite_volume(index), "mountPath": naming.suite_directory(suite.name), "readOnly": True}
            for index, suite in enumerate(test.spec.suites)
            if suite.config_map
        ),
        *([{"name": ARTIFACTS, "mountPath": naming.ARTIFACTS_DIRECTORY}] if claim else []),
        *(_read_only(mount) if mount["name"] in on_nodes else dict(mount) for mount in template.volume_mounts),
    ]


def _read_only(mount: Mapping[str, Any]) -> Manifest:
    """Recursively if the node's runtime can: a plain readOnly leaves mounts below this one writable."""
    return {**mount, "readOnly": True, "recursiveReadOnly": "IfPossible"}


def _suite_volume(index: int) -> str:
    return f"suite-{index}"


TERMINATION_GRACE_SECONDS = 30
NODE_LOST_SECONDS = 60  # the default of five minutes would only occupy the GPUs of the gang's other nodes


def selector(test: DistTest, attempt: int) -> dict[str, str]:
    """Labels that only the pods of this attempt have."""
    return {naming.LABEL_UID: test.uid, naming.LABEL_ATTEMPT: str(attempt)}


def build_template(
    test: DistTest,
    attempt: int,
    nonce: str,
    *,
    quarantine: Lists,
    avoid: tuple[str, ...],
    avoid_if_possible: tuple[str, ...],
) -> Manifest:
    """The pod template of an attempt's Job: PodSecurity `restricted`, read-only root, no API token.

    Pods are not scheduled on nodes to `avoid`, and on nodes to `avoid_if_possible` only if there are no others.
    """
    template = test.spec.template
    metadata: Manifest = {"labels": dict(template.labels) | naming.labels(test, attempt)}
    if template.annotations:
        metadata["annotations"] = dict(template.annotations)
    spec: Manifest = {
        "subdomain": naming.service(test, attempt),
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
        "automountServiceAccountToken": False,  # test code gets no API token
        "enableServiceLinks": False,
        "securityContext": containers.of_pod(test),
        "tolerations": _tolerations(test),
        "containers": [_container(test, attempt, nonce, quarantine)],
        "volumes": volumes(test),
    }
    affinity: Manifest = {}
    if avoid or avoid_if_possible:
        affinity["nodeAffinity"] = _node_affinity(avoid, avoid_if_possible)
    if test.spec.placement is Placement.SPREAD and test.spec.nodes > 1:
        affinity["podAntiAffinity"] = _one_pod_per_node(test, attempt)
    if affinity:
        spec["affinity"] = affinity
    optional: dict[str, Any] = {
        "initContainers": containers.init_containers(test),
        "nodeSelector": dict(template.node_selector),
        "priorityClassName": template.priority_class_name,
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "serviceAccountName": template.service_account_name,
        "imagePullSecrets": [{"name": name} for name in template.image_pull_secrets],
        "hostNetwork": template.host_network,
        # The default would be the node's resolver, which cannot resolve the leader's name.
        "dnsPolicy": "ClusterFirstWithHostNet" if template.host_network else "",
        "hostIPC": template.host_ipc,
        "hostPID": template.host_pid,
    }
    return {"metadata": metadata, "spec": spec | {key: value for key, value in optional.items() if value}}


def _container(test: DistTest, attempt: int, nonce: str, quarantine: Lists) -> Manifest:
    container: Manifest = {
        "name": naming.CONTAINER,
        "image": test.spec.image,
        "command": containers.inject_command(test),
        "workingDir": TEMPORARY,
        "env": _env(test, attempt, nonce, quarantine),
        # The agent's termination message goes to the pod's status; without one, the end of its log does.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": containers.of_test_container(test),
        "volumeMounts": mounts(test),
    }
    if test.spec.template.host_network:
        # The leader listens on its node: the scheduler avoids nodes on which the port is in use.
        port = environment.LEADER_PORT
        container["ports"] = [{"name": "leader", "containerPort": port, "hostPort": port}]
    resources = _resources(test)
    return container | ({"resources": resources} if resources else {})


def _resources(test: DistTest) -> Manifest:
    """Limits and requests both have the GPUs, as extended resources must."""
    kinds = {kind: dict(amounts) for kind, amounts in test.spec.template.resources.items() if amounts}
    if test.spec.gpus_per_node:
        for kind in ("limits", "requests"):
            kinds[kind] = kinds.get(kind, {}) | {test.spec.gpu_resource: str(test.spec.gpus_per_node)}
    return kinds


def _env(test: DistTest, attempt: int, nonce: str, quarantine: Lists) -> list[Manifest]:
    """Users' values override the defaults; those of the operator have reserved names, which users cannot set."""
    values = _default_env(test) | dict(test.spec.env)
    values |= {
        environment.PLAN: run_plan.variable(run_plan.run_plan(test, attempt, quarantine)),
        environment.NONCE: nonce,
        environment.LEADER: naming.leader_address(test, attempt),
    }
    if not test.spec.gpus_per_node:
        values |= environment.NO_GPUS_TO_ADD
    fields = {
        environment.NODE_NAME: "spec.nodeName",
        environment.POD_NAME: "metadata.name",
        environment.POD_UID: "metadata.uid",
    }
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def _default_env(test: DistTest) -> dict[str, str]:
    """Files are written below /tmp: the root is read-only, and the user has neither a home nor a name."""
    values = {
        "HOME": TEMPORARY,
        "TMPDIR": TEMPORARY,
        "USER": "disttest",  # getpass, which torch's compiler asks, has no entry in passwd to find
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": f"{TEMPORARY}/inductor",
        "TRITON_CACHE_DIR": f"{TEMPORARY}/triton",
    }
    if not test.spec.gpus_per_node:
        values |= environment.WITHOUT_GPUS
    return values


def _tolerations(test: DistTest) -> list[Manifest]:
    own = [dict(toleration) for toleration in test.spec.template.tolerations]
    keys = {toleration.get("key") for toleration in own}
    return own + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOST_SECONDS}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        if key not in keys
    ]


def _node_affinity(avoid: tuple[str, ...], avoid_if_possible: tuple[str, ...]) -> Manifest:
    """By name, since a node's hostname label may differ from it."""

    def none_of(names: tuple[str, ...]) -> Manifest:
        return {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in names]}

    affinity: Manifest = {}
    if avoid:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [none_of(avoid)]}
    if avoid_if_possible:
        preferred = {"weight": 100, "preference": none_of(avoid_if_possible)}
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [preferred]
    return affinity


def _one_pod_per_node(test: DistTest, attempt: int) -> Manifest:
    """Two pods on one node must not pass a test of two nodes."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector(test, attempt)}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
