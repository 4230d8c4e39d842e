"""What a DistTest says of its pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from disttest_operator.core.api.schema import (
    LABEL_VALUE,
    NAME,
    NOT_YET,
    OURS,
    QUALIFIED_NAME,
    Boolean,
    ListOf,
    MapOf,
    Object,
    Quantity,
    Text,
    Whole,
    object_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityContext:
    """What the container that runs tests gets beyond what `restricted` allows; None: the image's user."""

    privileged: bool = False
    run_as_user: int | None = None
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The typed subset of a pod that a DistTest may set; values are Kubernetes' own JSON."""

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
        """Those that its volumes name."""
        found = (volume.get("persistentVolumeClaim") for volume in self.volumes)
        return tuple(claim for claim in found if claim)


def read(raw: Mapping[str, Any]) -> Template:
    """From JSON that was checked."""
    metadata, pod = raw.get("metadata", {}), raw.get("spec", {})
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
        security_context=_security_context(pod.get("securityContext", {})),
        volumes=tuple(dict(volume) for volume in pod.get("volumes", ())),
        volume_mounts=tuple(dict(mount) for mount in pod.get("volumeMounts", ())),
    )


def _security_context(raw: Mapping[str, Any]) -> SecurityContext:
    return SecurityContext(
        privileged=raw.get("privileged", False),
        run_as_user=raw.get("runAsUser"),
        capabilities=tuple(dict.fromkeys(raw.get("capabilities", {}).get("add", ()))),
    )


VOLUMES = 16
MOUNTS = 32
HOST_PATH_TYPES = ("Directory", "File", "Socket", "CharDevice", "BlockDevice")  # those that change nothing on the node
# All that Linux has: one that is misspelt would keep the pods from starting, and ALL is no single one.
CAPABILITIES = (
    *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN"),
    *("DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE"),
    *("LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST"),
    *("NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT"),
    *("SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME"),
    *("SYS_TTY_CONFIG", "WAKE_ALARM"),
)

_KEY_ADVICE = (
    "write keys like app or example.com/app: letters, digits, '-', '_' and '.', at most 63 characters after the '/'"
)
_LABEL_ADVICE = "write letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, or nothing"
LABELS = MapOf(
    max_properties=32,
    value=Text(max_length=63, pattern=LABEL_VALUE, advice=_LABEL_ADVICE),
    key_pattern=QUALIFIED_NAME,
    key_advice=_KEY_ADVICE,
    # job-name and controller-uid are the Job controller's old spellings of its own labels.
    reserved=("job-name", "controller-uid", "app.kubernetes.io/managed-by"),
    # The last one has a webhook put a token of the cloud into the pod.
    reserved_prefixes=("disttest.dev/", "kueue.x-k8s.io/", "batch.kubernetes.io/", "azure.workload.identity/"),
    reserved_advice=(
        "those of azure.workload.identity/ give identities, labels of disttest.dev/, kueue.x-k8s.io/ and"
        " batch.kubernetes.io/, job-name, controller-uid and app.kubernetes.io/managed-by are set by controllers;"
        " leave them out, and name a queue in spec.queueName"
    ),
)
ANNOTATIONS = MapOf(
    max_properties=32,
    value=Text(max_length=4096),
    key_pattern=QUALIFIED_NAME,
    key_advice=_KEY_ADVICE,
    reserved_prefixes=(
        *("disttest.dev/", "batch.kubernetes.io/"),  # Kueue's say which topology a pod set needs: a user's
        # What the fields of a pod cannot say must not come in by the back door.
        *("container.apparmor.security.beta.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/"),
        *("seccomp.security.alpha.kubernetes.io/", "io.kubernetes.cri-o.", "cdi.k8s.io/", "iam.amazonaws.com/"),
    ),
    reserved_advice=(
        "annotations of disttest.dev/ and batch.kubernetes.io/ are set by controllers; those of apparmor, seccomp,"
        " io.kubernetes.cri-o., cdi.k8s.io/ and iam.amazonaws.com/ take protections away or give devices and"
        " identities; leave them out"
    ),
)

TOLERATION = Object(
    fields={
        "key": Text(
            min_length=1,
            max_length=317,
            pattern=QUALIFIED_NAME,
            advice="write the key of a taint, like nvidia.com/gpu, or leave it out",
        ),
        "operator": Text(max_length=16, choices=("Exists", "Equal")),
        "value": Text(max_length=63, pattern=LABEL_VALUE, advice=_LABEL_ADVICE),
        "effect": Text(max_length=32, choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
        "tolerationSeconds": Whole(minimum=0, maximum=604800),
    },
)

_PATH_ADVICE = "write an absolute path of letters, digits, '-', '_', '.', '+', '@' and '=': no '..', no '/' at the end"
PATH = Text(
    min_length=2,
    max_length=256,
    pattern=r"^(/\.?[-A-Za-z0-9_+@=][-A-Za-z0-9_.+@=]*)+$",  # at most one '.' begins a part, so none is ".."
    advice=_PATH_ADVICE,
)
VOLUME = Object(
    required=("name",),
    fields={
        "name": NAME,
        "hostPath": Object(
            required=("path",), fields={"path": PATH, "type": Text(max_length=32, choices=HOST_PATH_TYPES)}
        ),
        "persistentVolumeClaim": Object(
            required=("claimName",),
            fields={"claimName": object_name("a PersistentVolumeClaim of this namespace"), "readOnly": Boolean()},
        ),
        "emptyDir": Object(fields={"medium": Text(max_length=16, choices=("Memory",)), "sizeLimit": Quantity()}),
    },
)
MOUNT = Object(required=("name", "mountPath"), fields={"name": NAME, "mountPath": PATH, "readOnly": Boolean()})
SECURITY_CONTEXT = Object(
    fields={
        "privileged": Boolean(),
        "runAsUser": Whole(minimum=0, maximum=2**31 - 1),
        "capabilities": Object(
            required=("add",),
            fields={
                "add": ListOf(item=Text(max_length=32, choices=CAPABILITIES), min_items=1, max_items=len(CAPABILITIES))
            },
            refused={"drop": OURS},
        ),
    },
    refused=dict.fromkeys(
        ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot", "seccompProfile", "fsGroup"), OURS
    ),
)

_AMOUNTS = MapOf(value=Quantity(), max_properties=16, key_pattern=QUALIFIED_NAME, key_advice=_KEY_ADVICE)
POD = Object(
    fields={
        "nodeSelector": MapOf(
            value=Text(max_length=63, pattern=LABEL_VALUE, advice=_LABEL_ADVICE),
            max_properties=32,
            key_pattern=QUALIFIED_NAME,
            key_advice=_KEY_ADVICE,
        ),
        "tolerations": ListOf(item=TOLERATION, max_items=32),
        "resources": Object(fields={"limits": _AMOUNTS, "requests": _AMOUNTS}, refused={"claims": NOT_YET}),
        "priorityClassName": object_name("a PriorityClass"),
        "runtimeClassName": object_name("a RuntimeClass"),
        "schedulerName": object_name("a scheduler"),
        "serviceAccountName": object_name("a ServiceAccount of this namespace"),
        "imagePullSecrets": ListOf(
            item=Object(required=("name",), fields={"name": object_name("a Secret of this namespace")}), max_items=8
        ),
        "hostNetwork": Boolean(),
        "hostIPC": Boolean(),
        "hostPID": Boolean(),
        "securityContext": SECURITY_CONTEXT,
        "volumes": ListOf(
            item=VOLUME,
            max_items=VOLUMES,
            unique=("name",),
            advice="each volume needs a name of its own; rename one of the two",
        ),
        "volumeMounts": ListOf(item=MOUNT, max_items=MOUNTS),
    },
    refused=dict.fromkeys(("affinity", "resourceClaims"), NOT_YET)
    | dict.fromkeys(("containers", "initContainers", "restartPolicy", "hostname", "subdomain"), OURS),
)

TEMPLATE = Object(fields={"metadata": Object(fields={"labels": LABELS, "annotations": ANNOTATIONS}), "spec": POD})
