"""Rules for every field of a DistTest's spec.

Generated from manifests/crd/disttests.yaml by `python -m tools.docs`: change the CRD, not this file.
"""
# ruff: noqa: E501  # messages can be searched for if each is in one line

from disttest_operator.core.api.schema import Boolean, ListOf, MapOf, Object, Quantity, Text, Whole, object_name

NAME = Text(
    max_length=63,
    min_length=1,
    pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    advice="must consist of lower-case letters, digits and '-', and begin and end with a letter or digit",
)

CONFIG_MAP = Object(fields={"name": object_name("a ConfigMap")}, required=("name",))

VARIABLES = ListOf(
    item=Object(
        fields={
            "name": Text(
                max_length=128,
                min_length=1,
                pattern="^[A-Za-z_][A-Za-z0-9_]*$",
                advice="must consist of letters, digits and '_', and must not begin with a digit",
            ),
            "value": Text(max_length=4_096, default=""),
        },
        required=("name",),
        not_yet=("valueFrom",),
    ),
    max_items=64,
    unique=("name",),
    advice="variable names must be unique; remove one of the two",
)

SUITE = Object(
    fields={
        "name": NAME,
        "builtin": NAME,
        "configMap": CONFIG_MAP,
        "files": ListOf(
            item=Text(
                max_length=256,
                min_length=1,
                pattern=r"^\.?[-A-Za-z0-9_*?!+@=,\[\]](\.?(/\.?)?[-A-Za-z0-9_*?!+@=,\[\]])*$",
                advice="must be a path below /opt/pytorch such as test/distributed/test_c10d_*.py, without '/' at either end, '..' or spaces",
            ),
            max_items=64,
            min_items=1,
        ),
        "select": Text(
            max_length=1_024,
            min_length=1,
            pattern=r"^[A-Za-z0-9_:+.\[\]/(][-A-Za-z0-9_:+.\[\]/() ]*$",
            advice="must be a pytest -k expression: parts of names with and, or, not and parentheses",
        ),
        "env": VARIABLES,
    },
    required=("name",),
    not_yet=("retries", "thresholds", "timeouts"),
)

TIMEOUTS = Object(
    fields={
        "queueSeconds": Whole(minimum=1, maximum=604_800),
        "rendezvousSeconds": Whole(minimum=1, maximum=86_400),
        "caseSeconds": Whole(minimum=1, maximum=86_400),
        "runSeconds": Whole(minimum=1, maximum=604_800),
    }
)

THRESHOLD = Object(
    fields={
        "collective": Text(
            max_length=16,
            choices=(
                *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather"),
                *("scatter", "send_recv", "send_recv_pair"),
            ),
        ),
        "sizeBytes": Whole(minimum=1, maximum=1_099_511_627_776),
        "minBusBandwidthBytesPerSecond": Whole(minimum=1, maximum=1_000_000_000_000_000),
        "dtype": Text(max_length=16, choices=("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8")),
    },
    required=("collective", "sizeBytes", "minBusBandwidthBytesPerSecond"),
)

LABEL_VALUE = Text(
    max_length=63,
    pattern="^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
    advice="must be empty or consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
)

LABELS = MapOf(
    value=LABEL_VALUE,
    max_properties=32,
    reserved=("job-name", "controller-uid", "app.kubernetes.io/managed-by"),
    reserved_prefixes=("disttest.dev/", "kueue.x-k8s.io/", "batch.kubernetes.io/", "azure.workload.identity/"),
    reserved_advice="must not contain labels of azure.workload.identity/, which grant identities, or labels that controllers set: disttest.dev/, kueue.x-k8s.io/, batch.kubernetes.io/, job-name, controller-uid and app.kubernetes.io/managed-by; use spec.queueName for a queue",
)

ANNOTATIONS = MapOf(
    value=Text(max_length=4_096),
    max_properties=32,
    reserved_prefixes=(
        *("disttest.dev/", "batch.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/"),
        *("container.seccomp.security.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/"),
        *("io.kubernetes.cri-o.", "cdi.k8s.io/", "iam.amazonaws.com/"),
    ),
    reserved_advice="must not contain annotations that controllers set (disttest.dev/, batch.kubernetes.io/), or that weaken isolation or grant devices and identities (apparmor, seccomp, io.kubernetes.cri-o., cdi.k8s.io/, iam.amazonaws.com/)",
)

TOLERATION = Object(
    fields={
        "key": Text(
            max_length=317,
            min_length=1,
            pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            advice="must be the key of a taint, such as nvidia.com/gpu, or unset",
        ),
        "operator": Text(max_length=16, choices=("Exists", "Equal")),
        "value": LABEL_VALUE,
        "effect": Text(max_length=32, choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
        "tolerationSeconds": Whole(minimum=0, maximum=604_800),
    }
)

AMOUNTS = MapOf(value=Quantity(), max_properties=16)

CAPABILITY = Text(
    max_length=32,
    choices=(
        *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE"),
        *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL"),
        *("LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN"),
        *("NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP"),
        *("SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT"),
        *("SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM"),
    ),
)

SECURITY_CONTEXT = Object(
    fields={
        "privileged": Boolean(),
        "runAsUser": Whole(minimum=0, maximum=2_147_483_647),
        "capabilities": Object(
            fields={"add": ListOf(item=CAPABILITY, max_items=41, min_items=1)}, required=("add",), ours=("drop",)
        ),
    },
    ours=(*("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot", "seccompProfile"), *("fsGroup",)),
)

PATH = Text(
    max_length=256,
    min_length=2,
    pattern=r"^(/\.?[-A-Za-z0-9_+@=][-A-Za-z0-9_.+@=]*)+$",
    advice="must be an absolute path of letters, digits, '-', '_', '.', '+', '@' and '=', without '..' and without '/' at the end",
)

VOLUME = Object(
    fields={
        "name": NAME,
        "hostPath": Object(
            fields={
                "path": PATH,
                "type": Text(max_length=32, choices=("Directory", "File", "Socket", "CharDevice", "BlockDevice")),
            },
            required=("path",),
        ),
        "persistentVolumeClaim": Object(
            fields={"claimName": object_name("a PersistentVolumeClaim"), "readOnly": Boolean()}, required=("claimName",)
        ),
        "emptyDir": Object(fields={"medium": Text(max_length=16, choices=("Memory",)), "sizeLimit": Quantity()}),
    },
    required=("name",),
)

MOUNT = Object(fields={"name": NAME, "mountPath": PATH, "readOnly": Boolean()}, required=("name", "mountPath"))

POD = Object(
    fields={
        "nodeSelector": MapOf(value=LABEL_VALUE, max_properties=32),
        "tolerations": ListOf(item=TOLERATION, max_items=32),
        "resources": Object(fields={"limits": AMOUNTS, "requests": AMOUNTS}, not_yet=("claims",)),
        "priorityClassName": object_name("a PriorityClass"),
        "runtimeClassName": object_name("a RuntimeClass"),
        "schedulerName": object_name("a scheduler"),
        "serviceAccountName": object_name("a ServiceAccount"),
        "imagePullSecrets": ListOf(
            item=Object(fields={"name": object_name("a Secret")}, required=("name",)), max_items=8
        ),
        "hostNetwork": Boolean(),
        "hostIPC": Boolean(),
        "hostPID": Boolean(),
        "securityContext": SECURITY_CONTEXT,
        "volumes": ListOf(
            item=VOLUME, max_items=16, unique=("name",), advice="volume names must be unique; rename one of the two"
        ),
        "volumeMounts": ListOf(item=MOUNT, max_items=32),
    },
    not_yet=("affinity", "resourceClaims"),
    ours=("containers", "initContainers", "restartPolicy", "hostname", "subdomain"),
)

SPEC = Object(
    fields={
        "series": NAME,
        "suites": ListOf(
            item=SUITE,
            max_items=32,
            min_items=1,
            unique=("name",),
            advice="suite names must be unique; rename one, and set its source with builtin, configMap or files",
        ),
        "nodes": Whole(minimum=1, maximum=512, default=1),
        "gpusPerNode": Whole(minimum=0, maximum=16, default=8),
        "ranksPerNode": Whole(minimum=1, maximum=128),
        "backend": Text(max_length=16, choices=("nccl", "gloo")),
        "transport": Text(max_length=16, choices=("any", "rdma", "tcp", "plugin")),
        "image": Text(
            max_length=512,
            min_length=1,
            pattern="^[A-Za-z0-9][-A-Za-z0-9_.:/@]*$",
            advice="must be an image name such as registry.example.com/disttest-runner:1.0, without spaces",
        ),
        "gpuResource": Text(
            max_length=253,
            min_length=1,
            pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            advice="must be the name of an extended resource with its domain, such as nvidia.com/gpu",
        ),
        "placement": Text(max_length=16, choices=("Spread", "Any"), default="Spread"),
        "env": VARIABLES,
        "queueName": object_name("a LocalQueue"),
        "timeouts": TIMEOUTS,
        "retries": Object(
            fields={
                "flaky": Whole(minimum=0, maximum=5, default=1),
                "infrastructure": Whole(minimum=0, maximum=5, default=1),
            },
            has_default=True,
        ),
        "thresholds": ListOf(
            item=THRESHOLD,
            max_items=40,
            unique=("collective", "sizeBytes", "dtype"),
            advice="only one threshold is allowed for each collective, size and data type; remove one of the two",
        ),
        "artifacts": Object(
            fields={"persistentVolumeClaim": object_name("a PersistentVolumeClaim")},
            required=("persistentVolumeClaim",),
        ),
        "quarantine": Object(fields={"configMap": CONFIG_MAP}, required=("configMap",)),
        "ttlSecondsAfterFinished": Whole(minimum=0, maximum=31_536_000),
        "concurrencyPolicy": Text(max_length=16, choices=("Allow", "Wait"), default="Allow"),
        "suspend": Boolean(default=False),
        "cancel": Boolean(default=False),
        "template": Object(
            fields={"metadata": Object(fields={"labels": LABELS, "annotations": ANNOTATIONS}), "spec": POD}
        ),
    },
    required=("suites",),
    not_yet=("files", "select", "resourceClaims"),
)

# Messages of the CEL rules over several fields, by path.
MESSAGES = {
    "": (
        "backend nccl requires GPUs; set backend: gloo, or gpusPerNode to at least 1",
        "ranksPerNode must not exceed gpusPerNode, because backend nccl requires a separate GPU for each rank; lower ranksPerNode, or set backend: gloo or gpusPerNode: 0",
        "GPUs are requested with gpusPerNode; remove the GPU resource from template.spec.resources",
        "no suite measures bandwidth; add the suite collectives or a suite with files, or remove thresholds",
        "bandwidth requires at least 2 ranks; raise nodes or ranksPerNode, or remove thresholds",
        "transport requires at least 2 nodes, because ranks of one node use no network; raise nodes, or set transport: any",
        "backend gloo uses TCP only; set backend: nccl, or transport to any or tcp",
    ),
    "series": ("adhoc is reserved for runs without a series; choose another name, or remove series",),
    "suites[]": (
        "builtin, configMap and files are mutually exclusive; set one, or none for the built-in suite of this name",
    ),
    "suites[].env[].name": (
        "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; remove the variable",
        "NVIDIA_VISIBLE_DEVICES is set by the device plugin; remove the variable, and request GPUs with spec.gpusPerNode instead",
    ),
    "env[].name": (
        "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; remove the variable",
        "NVIDIA_VISIBLE_DEVICES is set by the device plugin; remove the variable, and request GPUs with spec.gpusPerNode instead",
    ),
    "timeouts": ("caseSeconds must not exceed runSeconds",),
    "template.spec": (
        "each volumeMount must name one of volumes; add the volume, or remove the mount",
        "mounts of a hostPath must have readOnly: true; use a persistentVolumeClaim or an emptyDir to write files",
    ),
    "template.spec.tolerations[]": (
        "operator Exists must not have a value; remove value, or set operator: Equal",
        "a toleration without a key requires operator: Exists; set key, or operator: Exists",
        "tolerationSeconds requires effect: NoExecute; set that effect, or remove tolerationSeconds",
    ),
    "template.spec.volumes[]": ("must have exactly one of hostPath, persistentVolumeClaim and emptyDir",),
    "template.spec.volumes[].name": (
        "artifacts, dshm, runner, tmp and names that begin with suite- are reserved; choose another name",
    ),
    "template.spec.volumeMounts": ("mount paths must not be equal to or below each other; change one of the paths",),
    "template.spec.volumeMounts[].mountPath": (
        "/artifacts, /dev/shm, /dev/termination-log, /etc/hostname, /etc/hosts, /etc/resolv.conf, /opt/disttest, /proc, /sys, /tmp and /var/run/secrets are reserved: choose a path that is not equal to, above or below one of them",
    ),
}
