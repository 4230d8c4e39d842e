"""Rules for every field of a DistTest's spec.

Generated from manifests/crd/disttests.yaml by `python -m tools.docs`: change the CRD, not this file.
"""
# ruff: noqa: E501  # messages can be searched for if each is in one line

from disttest_operator.core.api.schema import (
    NOT_YET,
    OURS,
    Boolean,
    ListOf,
    MapOf,
    Object,
    Quantity,
    Text,
    Whole,
    object_name,
)

NAME = Text(
    max_length=63,
    min_length=1,
    pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    advice="write lower-case letters, digits and '-', beginning and ending with a letter or digit",
)

CONFIG_MAP = Object(fields={"name": object_name("a ConfigMap of this namespace")}, required=("name",))

VARIABLES = ListOf(
    item=Object(
        fields={
            "name": Text(
                max_length=128,
                min_length=1,
                pattern="^[A-Za-z_][A-Za-z0-9_]*$",
                advice="write letters, digits and '_', not beginning with a digit",
            ),
            "value": Text(max_length=4_096, default=""),
        },
        required=("name",),
        refused={NOT_YET: ("valueFrom",)},
    ),
    max_items=64,
    unique=("name",),
    advice="each variable can be set once; remove one of the two",
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
                advice="write paths below /opt/pytorch, like test/distributed/test_c10d_*.py: no '/' at either end, no '..', no spaces",
            ),
            max_items=64,
            min_items=1,
        ),
        "select": Text(
            max_length=1_024,
            min_length=1,
            pattern=r"^[A-Za-z0-9_:+.\[\]/(][-A-Za-z0-9_:+.\[\]/() ]*$",
            advice="write an expression of pytest's -k: parts of names, with and, or, not and parentheses",
        ),
        "env": VARIABLES,
    },
    required=("name",),
    refused={NOT_YET: ("retries", "thresholds", "timeouts")},
)

TIMEOUTS = Object(
    fields={
        "queueSeconds": Whole(minimum=1, maximum=604_800),
        "joinSeconds": Whole(minimum=1, maximum=86_400),
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
    advice="write letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, or nothing",
)

LABELS = MapOf(
    value=LABEL_VALUE,
    max_properties=32,
    key_pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    key_advice="write keys like app or example.com/app: letters, digits, '-', '_' and '.', at most 63 characters after the '/'",
    reserved=("job-name", "controller-uid", "app.kubernetes.io/managed-by"),
    reserved_prefixes=("disttest.dev/", "kueue.x-k8s.io/", "batch.kubernetes.io/", "azure.workload.identity/"),
    reserved_advice="those of azure.workload.identity/ give identities, labels of disttest.dev/, kueue.x-k8s.io/ and batch.kubernetes.io/, job-name, controller-uid and app.kubernetes.io/managed-by are set by controllers; leave them out, and name a queue in spec.queueName",
)

ANNOTATIONS = MapOf(
    value=Text(max_length=4_096),
    max_properties=32,
    key_pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    key_advice="write keys like app or example.com/app: letters, digits, '-', '_' and '.', at most 63 characters after the '/'",
    reserved_prefixes=(
        *("disttest.dev/", "batch.kubernetes.io/", "container.apparmor.security.beta.kubernetes.io/"),
        *("container.seccomp.security.alpha.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/"),
        *("io.kubernetes.cri-o.", "cdi.k8s.io/", "iam.amazonaws.com/"),
    ),
    reserved_advice="annotations of disttest.dev/ and batch.kubernetes.io/ are set by controllers; those of apparmor, seccomp, io.kubernetes.cri-o., cdi.k8s.io/ and iam.amazonaws.com/ take protections away or give devices and identities; leave them out",
)

TOLERATION = Object(
    fields={
        "key": Text(
            max_length=317,
            min_length=1,
            pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            advice="write the key of a taint, like nvidia.com/gpu, or leave it out",
        ),
        "operator": Text(max_length=16, choices=("Exists", "Equal")),
        "value": LABEL_VALUE,
        "effect": Text(max_length=32, choices=("NoSchedule", "PreferNoSchedule", "NoExecute")),
        "tolerationSeconds": Whole(minimum=0, maximum=604_800),
    }
)

AMOUNTS = MapOf(
    value=Quantity(),
    max_properties=16,
    key_pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    key_advice="write keys like app or example.com/app: letters, digits, '-', '_' and '.', at most 63 characters after the '/'",
)

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
            fields={"add": ListOf(item=CAPABILITY, max_items=41, min_items=1)},
            required=("add",),
            refused={OURS: ("drop",)},
        ),
    },
    refused={
        OURS: (*("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsNonRoot", "seccompProfile"), *("fsGroup",))
    },
)

PATH = Text(
    max_length=256,
    min_length=2,
    pattern=r"^(/\.?[-A-Za-z0-9_+@=][-A-Za-z0-9_.+@=]*)+$",
    advice="write an absolute path of letters, digits, '-', '_', '.', '+', '@' and '=': no '..', no '/' at the end",
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
            fields={"claimName": object_name("a PersistentVolumeClaim of this namespace"), "readOnly": Boolean()},
            required=("claimName",),
        ),
        "emptyDir": Object(fields={"medium": Text(max_length=16, choices=("Memory",)), "sizeLimit": Quantity()}),
    },
    required=("name",),
)

MOUNT = Object(fields={"name": NAME, "mountPath": PATH, "readOnly": Boolean()}, required=("name", "mountPath"))

POD = Object(
    fields={
        "nodeSelector": MapOf(
            value=LABEL_VALUE,
            max_properties=32,
            key_pattern="^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            key_advice="write keys like app or example.com/app: letters, digits, '-', '_' and '.', at most 63 characters after the '/'",
        ),
        "tolerations": ListOf(item=TOLERATION, max_items=32),
        "resources": Object(fields={"limits": AMOUNTS, "requests": AMOUNTS}, refused={NOT_YET: ("claims",)}),
        "priorityClassName": object_name("a PriorityClass"),
        "runtimeClassName": object_name("a RuntimeClass"),
        "schedulerName": object_name("a scheduler"),
        "serviceAccountName": object_name("a ServiceAccount of this namespace"),
        "imagePullSecrets": ListOf(
            item=Object(fields={"name": object_name("a Secret of this namespace")}, required=("name",)), max_items=8
        ),
        "hostNetwork": Boolean(),
        "hostIPC": Boolean(),
        "hostPID": Boolean(),
        "securityContext": SECURITY_CONTEXT,
        "volumes": ListOf(
            item=VOLUME,
            max_items=16,
            unique=("name",),
            advice="each volume needs a name of its own; rename one of the two",
        ),
        "volumeMounts": ListOf(item=MOUNT, max_items=32),
    },
    refused={
        NOT_YET: ("affinity", "resourceClaims"),
        OURS: ("containers", "initContainers", "restartPolicy", "hostname", "subdomain"),
    },
)

SPEC = Object(
    fields={
        "series": NAME,
        "suites": ListOf(
            item=SUITE,
            max_items=32,
            min_items=1,
            unique=("name",),
            advice="each suite needs a name of its own; rename one, and say what it runs in builtin, configMap or files",
        ),
        "nodes": Whole(minimum=1, maximum=512, default=1),
        "gpusPerNode": Whole(minimum=0, maximum=16, default=8),
        "ranksPerNode": Whole(minimum=1, maximum=128),
        "backend": Text(max_length=16, choices=("nccl", "gloo")),
        "image": Text(
            max_length=512,
            min_length=1,
            pattern="^[A-Za-z0-9][-A-Za-z0-9_.:/@]*$",
            advice="write an image like registry.example.com/disttest-runner:1.0, without spaces",
        ),
        "gpuResource": Text(
            max_length=253,
            min_length=1,
            pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            advice="write the name of an extended resource with its domain, like nvidia.com/gpu",
        ),
        "placement": Text(max_length=16, choices=("Spread", "Any"), default="Spread"),
        "env": VARIABLES,
        "queueName": object_name("a LocalQueue of this namespace"),
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
            advice="there is one threshold for each collective, size and type; remove one of the two",
        ),
        "artifacts": Object(
            fields={"persistentVolumeClaim": object_name("a PersistentVolumeClaim of this namespace")},
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
    refused={NOT_YET: ("files", "select", "resourceClaims")},
)

# Messages of the CEL rules over several fields, by path.
MESSAGES = {
    "": (
        "backend nccl needs GPUs; write backend: gloo, or gpusPerNode of at least 1",
        "with GPUs every rank needs one of its own; write ranksPerNode of at most gpusPerNode, or backend: gloo, or gpusPerNode: 0",
        "GPUs are asked for by gpusPerNode; remove the GPU resource from template.spec.resources",
        "no suite measures what thresholds are about; add the suite collectives, or one with files, or remove thresholds",
        "one rank alone measures nothing; write more nodes or ranksPerNode, or remove thresholds",
    ),
    "series": ("adhoc is the series of runs that name none; choose another name, or leave series out",),
    "suites[]": (
        "builtin, configMap and files exclude each other; write one, or none for the built-in suite of this name",
    ),
    "suites[].env[].name": (
        "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; leave this one out",
    ),
    "env[].name": (
        "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; leave this one out",
    ),
    "timeouts": ("a case cannot last longer than the run; write caseSeconds of at most runSeconds",),
    "template.spec": (
        "each of volumeMounts names one of volumes; add the volume, or remove the mount",
        "tests do not write to their node; add readOnly: true to each mount of a hostPath, and write to a persistentVolumeClaim or an emptyDir",
    ),
    "template.spec.tolerations[]": (
        "operator Exists takes no value; remove value, or write operator: Equal",
        "a toleration without key tolerates every taint; write key, or operator: Exists",
        "tolerationSeconds needs effect: NoExecute; write that effect, or remove tolerationSeconds",
    ),
    "template.spec.volumes[]": ("write exactly one of hostPath, persistentVolumeClaim and emptyDir",),
    "template.spec.volumes[].name": (
        "artifacts, dshm, runner, tmp and names that begin with suite- are taken; choose another name",
    ),
    "template.spec.volumeMounts": ("one mount hides another; write paths that are neither equal nor below each other",),
    "template.spec.volumeMounts[].mountPath": (
        "/artifacts, /dev/shm, /dev/termination-log, /etc/hostname, /etc/hosts, /etc/resolv.conf, /opt/disttest, /proc, /sys, /tmp, /var/run/secrets are taken: write a path that is none of them, nor above or below one",
    ),
}
