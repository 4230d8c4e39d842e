"""What `spec.template` may set of a pod: a closed list."""

from disttest_operator.core.schema import Flag, ListOf, MapOf, Object, Quantity, Text, Whole
from disttest_operator.core.spec_texts import LABEL_VALUE, NAME, NOT_YET, OURS, QUALIFIED_NAME, object_name

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
            fields={"claimName": object_name("a PersistentVolumeClaim of this namespace"), "readOnly": Flag()},
        ),
        "emptyDir": Object(fields={"medium": Text(max_length=16, choices=("Memory",)), "sizeLimit": Quantity()}),
    },
)
MOUNT = Object(required=("name", "mountPath"), fields={"name": NAME, "mountPath": PATH, "readOnly": Flag()})
SECURITY_CONTEXT = Object(
    fields={
        "privileged": Flag(),
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
        "hostNetwork": Flag(),
        "hostIPC": Flag(),
        "hostPID": Flag(),
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
