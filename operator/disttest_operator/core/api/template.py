"""`spec.template`: what a DistTest sets for its pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """Extra privileges of the container that runs the tests. `run_as_user` None is the user of the image."""

    privileged: bool = False
    run_as_user: int | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The fields of a pod that a DistTest can set; mappings are JSON of Kubernetes."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # limits, requests
    priority_class_name: str = ""
    runtime_class_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    host_network: bool = False
    host_ipc: bool = False
    host_pid: bool = False
    security_context: SecurityContext = SecurityContext()
    volumes: tuple[Mapping[str, Any], ...] = ()
    volume_mounts: tuple[Mapping[str, Any], ...] = ()

    @property
    def claims(self) -> tuple[Mapping[str, Any], ...]:
        """The persistentVolumeClaim sources of the volumes."""
        found = (volume.get("persistentVolumeClaim") for volume in self.volumes)
        return tuple(claim for claim in found if claim)


def read(raw: Mapping[str, Any]) -> Template:
    """Read `spec.template`, which passed validation."""
    metadata, pod = raw.get("metadata", {}), raw.get("spec", {})
    security = pod.get("securityContext", {})
    return Template(
        labels=dict(metadata.get("labels", {})),
        annotations=dict(metadata.get("annotations", {})),
        node_selector=dict(pod.get("nodeSelector", {})),
        tolerations=tuple(dict(toleration) for toleration in pod.get("tolerations", ())),
        resources={
            kind: {name: str(amount) for name, amount in amounts.items()}
            for kind, amounts in pod.get("resources", {}).items()
        },
        priority_class_name=pod.get("priorityClassName", ""),
        runtime_class_name=pod.get("runtimeClassName", ""),
        scheduler_name=pod.get("schedulerName", ""),
        service_account_name=pod.get("serviceAccountName", ""),
        image_pull_secrets=tuple(secret["name"] for secret in pod.get("imagePullSecrets", ())),
        host_network=pod.get("hostNetwork", False),
        host_ipc=pod.get("hostIPC", False),
        host_pid=pod.get("hostPID", False),
        security_context=SecurityContext(
            privileged=security.get("privileged", False),
            run_as_user=security.get("runAsUser"),
            capabilities=tuple(dict.fromkeys(security.get("capabilities", {}).get("add", ()))),
        ),
        volumes=tuple(dict(volume) for volume in pod.get("volumes", ())),
        volume_mounts=tuple(dict(mount) for mount in pod.get("volumeMounts", ())),
    )
