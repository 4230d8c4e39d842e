"""What every field of a DistTest's spec may be."""

from disttest_contract import limits
from disttest_contract.gang.plan import UPSTREAM_ROOT
from disttest_contract.results.measurement import COLLECTIVES, DTYPES
from disttest_operator.core.api.model import Backend, Concurrency, Placement
from disttest_operator.core.api.schema import NAME, NOT_YET, Boolean, ListOf, Object, Text, Whole, object_name
from disttest_operator.core.api.template import TEMPLATE

ADHOC_SERIES = "adhoc"  # where runs without a series are counted
RANKS_WITHOUT_GPUS = 2

CONFIG_MAP = Object(required=("name",), fields={"name": object_name("a ConfigMap of this namespace")})

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
        "name": NAME,
        "builtin": NAME,
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

SPEC = Object(
    required=("suites",),
    fields={
        "series": NAME,
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
        "queueName": object_name("a LocalQueue of this namespace"),
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
            fields={"persistentVolumeClaim": object_name("a PersistentVolumeClaim of this namespace")},
        ),
        "quarantine": Object(required=("configMap",), fields={"configMap": CONFIG_MAP}),
        "ttlSecondsAfterFinished": Whole(minimum=0, maximum=31536000),
        "concurrencyPolicy": Text(max_length=16, choices=tuple(Concurrency), default=Concurrency.ALLOW.value),
        "suspend": Boolean(default=False),
        "cancel": Boolean(default=False),
        "template": TEMPLATE,
    },
    refused=dict.fromkeys(("files", "select", "resourceClaims"), NOT_YET),
)
