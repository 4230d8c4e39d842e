"""What every field of a DistTest's spec may be."""

from disttest_contract import limits
from disttest_contract.measurement import COLLECTIVES, DTYPES
from disttest_contract.plan import UPSTREAM_ROOT
from disttest_operator.core.model import Backend, Concurrency, Placement
from disttest_operator.core.schema import Flag, ListOf, MapOf, Object, Quantity, Text, Whole

ADHOC_SERIES = "adhoc"  # where runs without a series are counted
RANKS_WITHOUT_GPUS = 2

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

NOT_YET = "is not supported by this version of DistTest; leave it out"
OURS = "is set by the operator; leave it out"


def _object_name(what: str) -> Text:
    return Text(
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
        advice=f"write the name of {what}: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )


CONFIG_MAP = Object(required=("name",), fields={"name": _object_name("a ConfigMap of this namespace")})
_NAME = Text(
    min_length=1,
    max_length=63,
    pattern=DNS_LABEL,
    advice="write lower-case letters, digits and '-', beginning and ending with a letter or digit",
)

ENV = Object(
    required=("name",),
    fields={
        "name": Text(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
            advice="write letters, digits and '_', not beginning with a digit",
        ),
        "value": Text(max_length=4096, default=""),
    },
    refused={"valueFrom": NOT_YET},
)

VARIABLES = ListOf(
    item=ENV, max_items=64, unique=("name",), advice="each variable can be set once; remove one of the two"
)

# Before each of these characters a '.' may stand, a '/', or both: so no part of a path is empty, and none is "..".
_GLOB_CHARACTER = r"[-A-Za-z0-9_*?!+@=,\[\]]"
GLOB = Text(
    min_length=1,
    max_length=256,
    pattern=rf"^\.?{_GLOB_CHARACTER}(\.?(/\.?)?{_GLOB_CHARACTER})*$",
    advice=(
        f"write paths below {UPSTREAM_ROOT}, like test/distributed/test_c10d_*.py:"
        " no '/' at either end, no '..', no spaces"
    ),
)
SELECT = Text(
    min_length=1,
    max_length=1024,
    pattern=r"^[A-Za-z0-9_:+.\[\]/(][-A-Za-z0-9_:+.\[\]/() ]*$",
    advice="write an expression of pytest's -k: parts of names, with and, or, not and parentheses",
)

SUITE = Object(
    required=("name",),
    fields={
        "name": _NAME,
        "builtin": _NAME,
        "configMap": CONFIG_MAP,
        "files": ListOf(item=GLOB, min_items=1, max_items=64),
        "select": SELECT,
        "env": VARIABLES,
    },
    refused=dict.fromkeys(("retries", "thresholds", "timeouts"), NOT_YET),
)

TIMEOUTS = Object(
    fields={
        "queueSeconds": Whole(minimum=1, maximum=604800),
        "joinSeconds": Whole(minimum=1, maximum=86400),
        "caseSeconds": Whole(minimum=1, maximum=86400),
        "runSeconds": Whole(minimum=1, maximum=604800),
    },
)

RETRIES = Object(
    has_default=True,
    fields={
        "flaky": Whole(minimum=0, maximum=5, default=1),
        "infrastructure": Whole(minimum=0, maximum=5, default=1),
    },
)

THRESHOLD = Object(
    required=("collective", "sizeBytes", "minBusBandwidthBytesPerSecond"),
    fields={
        "collective": Text(max_length=16, choices=COLLECTIVES),
        "sizeBytes": Whole(minimum=1, maximum=limits.SIZE_BYTES),
        "minBusBandwidthBytesPerSecond": Whole(minimum=1, maximum=limits.BUS_BYTES_PER_SECOND),
        "dtype": Text(max_length=16, choices=DTYPES),
    },
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
    reserved_prefixes=("disttest.dev/", "kueue.x-k8s.io/", "batch.kubernetes.io/"),
    reserved_advice=(
        "labels of disttest.dev/, kueue.x-k8s.io/ and batch.kubernetes.io/, job-name, controller-uid and"
        " app.kubernetes.io/managed-by are set by controllers; leave them out, and name a queue in spec.queueName"
    ),
)
ANNOTATIONS = MapOf(
    max_properties=32,
    value=Text(max_length=4096),
    key_pattern=QUALIFIED_NAME,
    key_advice=_KEY_ADVICE,
    reserved_prefixes=("disttest.dev/", "batch.kubernetes.io/"),  # Kueue's say which topology a pod set needs: a user's
    reserved_advice="annotations of disttest.dev/ and batch.kubernetes.io/ are set by controllers; leave them out",
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
        "priorityClassName": _object_name("a PriorityClass"),
        "runtimeClassName": _object_name("a RuntimeClass"),
        "schedulerName": _object_name("a scheduler"),
        "serviceAccountName": _object_name("a ServiceAccount of this namespace"),
        "imagePullSecrets": ListOf(
            item=Object(required=("name",), fields={"name": _object_name("a Secret of this namespace")}), max_items=8
        ),
    },
    refused=dict.fromkeys(("affinity", "volumes", "volumeMounts", "resourceClaims", "securityContext"), NOT_YET)
    | dict.fromkeys(("containers", "initContainers", "restartPolicy", "hostname", "subdomain"), OURS),
)

SPEC = Object(
    required=("suites",),
    fields={
        "series": _NAME,
        "suites": ListOf(
            item=SUITE,
            min_items=1,
            max_items=limits.SUITES,
            unique=("name",),
            advice=(
                "each suite needs a name of its own; rename one, and say what it runs in builtin, configMap or files"
            ),
        ),
        "nodes": Whole(minimum=1, maximum=limits.NODES, default=1),
        "gpusPerNode": Whole(minimum=0, maximum=16, default=8),
        "ranksPerNode": Whole(minimum=1, maximum=limits.RANKS_PER_NODE),
        "backend": Text(max_length=16, choices=tuple(Backend)),
        "image": Text(
            min_length=1,
            max_length=512,
            pattern=r"^[A-Za-z0-9][-A-Za-z0-9_.:/@]*$",
            advice="write an image like registry.example.com/disttest-runner:1.0, without spaces",
        ),
        "gpuResource": Text(
            min_length=1,
            max_length=253,
            pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
            advice="write the name of an extended resource with its domain, like nvidia.com/gpu",
        ),
        "placement": Text(max_length=16, choices=tuple(Placement), default=Placement.SPREAD.value),
        "env": VARIABLES,
        "queueName": _object_name("a LocalQueue of this namespace"),
        "timeouts": TIMEOUTS,
        "retries": RETRIES,
        "thresholds": ListOf(
            item=THRESHOLD,
            max_items=limits.THRESHOLDS,
            unique=("collective", "sizeBytes", "dtype"),
            advice="there is one threshold for each collective, size and type; remove one of the two",
        ),
        "artifacts": Object(
            required=("persistentVolumeClaim",),
            fields={"persistentVolumeClaim": _object_name("a PersistentVolumeClaim of this namespace")},
        ),
        "quarantine": Object(required=("configMap",), fields={"configMap": CONFIG_MAP}),
        "ttlSecondsAfterFinished": Whole(minimum=0, maximum=31536000),
        "concurrencyPolicy": Text(max_length=16, choices=tuple(Concurrency), default=Concurrency.ALLOW.value),
        "suspend": Flag(default=False),
        "cancel": Flag(default=False),
        "template": Object(
            fields={"metadata": Object(fields={"labels": LABELS, "annotations": ANNOTATIONS}), "spec": POD}
        ),
    },
    refused=dict.fromkeys(("files", "select", "resourceClaims"), NOT_YET),
)
