"""Invalid manifests: both the API server and the parser reject each with a message."""

from typing import Final

from tests.data.good_manifest import REMOVE
from tests.data.wrong import OURS, POD, Wrong, one, refused
from tests.data.wrong_templates import WRONG_TEMPLATES

AT_LEAST = "spec/thresholds/0/minBusBandwidthBytesPerSecond"
LABEL = "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit"
BELOW = "must be a path below /opt/pytorch"
MANY_ENV = [{"name": f"V{i}"} for i in range(65)]
MANY_THRESHOLDS = [
    {
        "collective": "send_recv_pair",
        "sizeBytes": 2**40 - n,
        "minBusBandwidthBytesPerSecond": 10**15,
        "dtype": "float64",
    }
    for n in range(41)
]
MANY_SUITES = [{"name": f"s{i}"} for i in range(33)]

ONE_GPU = {"spec/nodes": 1, "spec/gpusPerNode": 1, "spec/ranksPerNode": REMOVE}

WRONG: Final[tuple[Wrong, ...]] = (
    # The object
    one("kind", "DistTests", "kind: must be DistTest", server="must be DistTest"),
    one("apiVersion", "disttest.dev/v1", "apiVersion: must be disttest.dev/v1alpha1", server='in version "v1" cannot'),
    one("spec", REMOVE, "spec: is required", server="spec: Required value"),
    one("spec", None, "spec: is required", server="spec: Required value"),
    one("spec", [], "spec: must be a mapping", server='must be of type object: "array"'),
    one("specs", {}, "specs: is unknown; did you mean spec?", server='unknown field "specs"'),
    one(
        "metadata/lables",  # codespell:ignore lables
        {},
        "did you mean labels?",
        server='unknown field "metadata.lables"',  # codespell:ignore lables
    ),
    one("metadata/name", REMOVE, "metadata.name: is required", server="name or generateName is required"),
    one("metadata/name", "x" * 53, "at most 52 lower-case letters"),
    one("metadata/name", "2x8", "begin with a letter"),
    one("metadata/name", "night.2x8", "must be at most 52 lower-case letters, digits and '-'"),
    one("metadata/name", "Nightly", "must be at most 52", server="a lowercase RFC 1123 subdomain"),
    # Unknown and later fields
    one("spec/node", 2, "spec.node: is unknown; did you mean nodes?", server='unknown field "spec.node"'),
    one("spec/gpuspernode", 2, "did you mean gpusPerNode?", server='unknown field "spec.gpuspernode"'),
    one("spec/timeouts/case", 2, "spec.timeouts.case: is unknown; known fields", server='"spec.timeouts.case"'),
    one(
        "spec/retries/infrastructure",
        6,
        "spec.retries.infrastructure: must be an integer from 0 to 5",
        server="less than or equal to 5",
    ),
    one(
        "spec/concurrencyPolicy",
        "Replace",
        "spec.concurrencyPolicy: must be one of Allow, Wait",
        server='supported values: "Allow", "Wait"',
    ),
    one("spec/suspend", "yes", "spec.suspend: must be true or false", server='must be of type boolean: "string"'),
    one("spec/cancel", 1, "spec.cancel: must be true or false", server='must be of type boolean: "integer"'),
    refused("spec/suites/0/retries", 1),
    refused("spec/suites/0/thresholds", []),
    refused("spec/suites/0/env/0/valueFrom", {}),
    refused("spec/files", ["test/a.py"]),
    refused("spec/select", "not gloo"),
    refused("spec/env/0/valueFrom", {}),
    refused(f"{POD}/affinity", {}),
    refused(f"{POD}/resourceClaims", []),
    refused(f"{POD}/restartPolicy", "Always", OURS),
    refused(f"{POD}/containers", [], OURS),
    refused(f"{POD}/subdomain", "x", OURS),
    # Suites
    one("spec/suites", REMOVE, "spec.suites: is required", server="spec.suites: Required value"),
    one("spec/suites", [], "must have 1 to 32 entries", server="should have at least 1 items"),
    one("spec/suites", MANY_SUITES, "must have 1 to 32 entries", server="must have at most 32 items"),
    one("spec/suites", "collectives", "spec.suites: must be a list", server='must be of type array: "string"'),
    one("spec/suites/0", "collectives", "spec.suites[0]: must be a mapping", server='of type object: "string"'),
    one("spec/suites/0/name", REMOVE, "spec.suites[0].name: is required", server="spec.suites[0].name: Required value"),
    one("spec/suites/0/name", "Collectives", LABEL),
    one("spec/suites/0/name", "", "must have at least 1 character", server="should be at least 1 chars long"),
    one("spec/suites/0/name", "a" * 64, "must have at most 63 characters", server="may not be more than 63 bytes"),
    one("spec/suites/0/builtin", "a/b", LABEL),
    one("spec/suites/0/configMap", {"name": "x"}, "builtin, configMap and files are mutually exclusive"),
    one("spec/suites/0/files", ["a.py"], "builtin, configMap and files are mutually exclusive"),
    one("spec/suites/1/files", ["a.py"], "builtin, configMap and files are mutually exclusive"),
    one("spec/suites/1/configMap", {}, "configMap.name: is required", server="configMap.name: Required value"),
    one("spec/suites/1/configMap/name", "My_Tests", "must be the name of a ConfigMap"),
    one("spec/suites/1/name", "collectives", "suite names must be unique"),
    # Files of the image
    one("spec/suites/2/files", [], "must have 1 to 64 entries", server="should have at least 1 items"),
    one(
        "spec/suites/2/files",
        ["a.py"] * 65,
        "must have 1 to 64 entries",
        server="must have at most 64 items",
        name="65",
    ),
    one("spec/suites/2/files", "a.py", "files: must be a list", server='must be of type array: "string"'),
    one("spec/suites/2/files/0", "", "must have at least 1 character", server="should be at least 1 chars long"),
    one(
        "spec/suites/2/files/0", "a" * 257, "must have at most 256 characters", server="may not be more than 256 bytes"
    ),
    one("spec/suites/2/files/0", 1, "must be a string", server='of type string: "integer"'),
    *(
        one("spec/suites/2/files/0", path, BELOW)
        for path in ("/etc/passwd", "test/", "../a.py", "a/../../b.py", "a//b.py", "a/./b.py", "..", "a b.py", "a\nb")
    ),
    # Which cases
    one("spec/suites/1/select", "", "must have at least 1 character", server="should be at least 1 chars long"),
    one(
        "spec/suites/1/select",
        "a" * 1025,
        "must have at most 1024 characters",
        server="may not be more than 1024 bytes",
    ),
    one("spec/suites/1/select", ["a"], "must be a string", server='of type string: "array"'),
    *(
        one("spec/suites/1/select", expression, "must be a pytest -k expression")
        for expression in ("-x", "a && b", "a = 1", "'a'", "a\nor b")
    ),
    # Numbers
    one("spec/nodes", 0, "must be an integer from 1 to 512", server="should be greater than or equal to 1"),
    one("spec/nodes", 513, "must be an integer from 1 to 512", server="should be less than or equal to 512"),
    one("spec/nodes", "2", "must be an integer from 1 to 512, not '2'", server='of type integer: "string"'),
    one("spec/nodes", 1.5, "must be an integer from 1 to 512", server="must be of type integer"),
    one("spec/nodes", True, "must be an integer from 1 to 512", server="spec.nodes in body must be of type"),
    one("spec/gpusPerNode", 17, "from 0 to 16", server="less than or equal to 16"),
    one("spec/gpusPerNode", -1, "from 0 to 16", server="greater than or equal to 0"),
    one("spec/gpusPerNode", 0, "backend nccl requires GPUs; set backend: gloo"),
    one("spec/gpusPerNode", 4, "ranksPerNode must not exceed gpusPerNode"),
    one("spec/ranksPerNode", 9, "ranksPerNode must not exceed gpusPerNode"),
    one("spec/ranksPerNode", 0, "from 1 to 128", server="greater than or equal to 1"),
    one("spec/ranksPerNode", 129, "from 1 to 128", server="less than or equal to 128"),
    one("spec/ttlSecondsAfterFinished", -1, "from 0 to 31536000", server="greater than or equal to 0"),
    one("spec/timeouts/queueSeconds", 0, "from 1 to 604800", server="greater than or equal to 1"),
    one("spec/timeouts/rendezvousSeconds", "5m", "from 1 to 86400, not '5m'", server='of type integer: "string"'),
    one("spec/timeouts/caseSeconds", 7201, "caseSeconds must not exceed runSeconds"),
    one("spec/timeouts/runSeconds", 604801, "from 1 to 604800", server="less than or equal to 604800"),
    one("spec/timeouts/runSeconds", 299, "caseSeconds must not exceed runSeconds"),
    one("spec/retries", 1, "spec.retries: must be a mapping", server='must be of type object: "integer"'),
    one("spec/retries/flaky", -1, "from 0 to 5", server="greater than or equal to 0"),
    one("spec/retries/flaky", 6, "from 0 to 5", server="less than or equal to 5"),
    # Thresholds
    one("spec/thresholds", {}, "spec.thresholds: must be a list", server='must be of type array: "object"'),
    one("spec/thresholds", MANY_THRESHOLDS, "must have 0 to 40 entries", server="must have at most 40 items"),
    one("spec/thresholds/0/collective", REMOVE, "collective: is required", server="collective: Required value"),
    one(
        "spec/thresholds/0/collective",
        "allreduce",
        "must be one of all_reduce",
        server='supported values: "all_reduce"',
    ),
    one("spec/thresholds/0/sizeBytes", 0, "from 1 to 1099511627776", server="greater than or equal to 1"),
    one(
        "spec/thresholds/0/sizeBytes", 2**40 + 1, "from 1 to 1099511627776", server="less than or equal to 109951162777"
    ),
    one("spec/thresholds/0/sizeBytes", "1G", "from 1 to 1099511627776, not '1G'", server='type integer: "string"'),
    one(AT_LEAST, REMOVE, "is required", server="PerSecond: Required value"),
    one(AT_LEAST, 0, "from 1 to", server="greater than or equal to 1"),
    one(AT_LEAST, 1.5, "integer from 1", server="must be of type integer"),
    one(AT_LEAST, 10**15 + 1, "to 1000000000000000", server="or equal to 100000"),
    one("spec/thresholds/0/dtype", "bf16", "must be one of float32", server='supported values: "float32"'),
    one("spec/thresholds/0/dtype", "bfloat16", "only one threshold is allowed for each collective, size and data type"),
    one("spec/thresholds/1/dtype", REMOVE, "only one threshold is allowed for each collective, size and data type"),
    one("spec/thresholds/0/ratio", 0.9, "ratio: is unknown", server='unknown field "spec.thresholds[0].ratio"'),
    one("spec/suites", [{"name": "data-parallel"}], "no suite measures bandwidth"),
    one("spec/suites", [{"name": "collectives", "builtin": "data-parallel"}], "add the suite collectives"),
    Wrong(
        id="one rank", change={"spec/nodes": 1, "spec/ranksPerNode": 1}, parser="bandwidth requires at least 2 ranks"
    ),
    Wrong(id="one GPU", change=ONE_GPU, parser="raise nodes or ranksPerNode, or remove thresholds"),
    # Words
    one("spec/artifacts", {}, "persistentVolumeClaim: is required", server="persistentVolumeClaim: Required value"),
    one("spec/artifacts/persistentVolumeClaim", "My_Claim", "must be the name of a PersistentVolumeClaim"),
    one("spec/artifacts/emptyDir", {}, "artifacts.emptyDir: is unknown", server='field "spec.artifacts.emptyDir"'),
    one("spec/quarantine", {}, "quarantine.configMap: is required", server="quarantine.configMap: Required value"),
    one("spec/quarantine/configMap", {}, "configMap.name: is required", server="configMap.name: Required value"),
    one("spec/quarantine/configMap/name", "My_List", "must be the name of a ConfigMap"),
    one("spec/quarantine/cases", [], "quarantine.cases: is unknown", server='field "spec.quarantine.cases"'),
    one("spec/backend", "mpi", "must be one of nccl, gloo", server='supported values: "nccl", "gloo"'),
    one("spec/transport", "RDMA", "must be one of any, rdma, tcp, plugin", server='supported values: "any", "rdma"'),
    Wrong(
        id="a network on one node",
        change={"spec/transport": "tcp", "spec/nodes": 1},
        parser="transport requires at least 2 nodes, because ranks of one node use no network",
    ),
    Wrong(
        id="rdma with gloo",
        change={"spec/transport": "rdma", "spec/backend": "gloo"},
        parser="backend gloo uses TCP only; set backend: nccl, or transport to any or tcp",
    ),
    Wrong(
        id="a plugin without GPUs",
        change={"spec/transport": "plugin", "spec/gpusPerNode": 0, "spec/backend": REMOVE},
        parser="backend gloo uses TCP only; set backend: nccl, or transport to any or tcp",
    ),
    one("spec/placement", "spread", "must be one of Spread, Any", server='supported values: "Spread", "Any"'),
    one("spec/series", "Nightly", LABEL),
    one("spec/series", "adhoc", "adhoc is reserved for runs without a series"),
    one("spec/series", 8, "must be a string", server='of type string: "integer"'),
    one("spec/image", "my image", "without spaces"),
    one("spec/image", "", "must have at least 1 character", server="at least 1 chars long"),
    one("spec/gpuResource", "gpu", "such as nvidia.com/gpu"),
    one("spec/queueName", "GPU", "must be the name of a LocalQueue"),
    # Environment
    one("spec/env/0/name", "MASTER_ADDR", "are set by the runner; remove the variable"),
    one("spec/env/0/name", "RANK", "are set by the runner; remove the variable"),
    one("spec/env/0/name", "DISTTEST_PLAN", "are set by the runner; remove the variable"),
    one("spec/env/0/name", "PET_NNODES", "are set by the runner; remove the variable"),
    one("spec/env/0/name", "NVIDIA_VISIBLE_DEVICES", "request GPUs with spec.gpusPerNode instead"),
    one("spec/env/0/name", "2X", "must consist of letters, digits and '_', and must not begin with a digit"),
    one("spec/env/0/name", REMOVE, "spec.env[0].name: is required", server="spec.env[0].name: Required value"),
    one("spec/env/0/name", "V" * 129, "must have at most 128 characters", server="may not be more than 128 bytes"),
    one("spec/env/0/value", 1, "must be a string", server='of type string: "integer"'),
    one("spec/env/0/value", "x" * 4097, "must have at most 4096 characters", server="may not be more than 4096 bytes"),
    one("spec/env/1/name", "NCCL_DEBUG", "variable names must be unique"),
    one("spec/env", {"NCCL_DEBUG": "INFO"}, "spec.env: must be a list", server='unknown field "spec.env.NCCL_DEBUG"'),
    one("spec/env", MANY_ENV, "must have 0 to 64 entries", server="must have at most 64 items"),
    one("spec/suites/0/env/0/name", "WORLD_SIZE", "are set by the runner; remove the variable"),
    one("spec/suites/0/env/0/name", "TORCHELASTIC_RUN_ID", "are set by the runner; remove the variable"),
    one("spec/suites/0/env/0/name", "NVIDIA_VISIBLE_DEVICES", "request GPUs with spec.gpusPerNode instead"),
    one("spec/suites/0/env/0/name", "A-B", "must consist of letters, digits and '_', and must not begin with a digit"),
    one("spec/suites/0/env/0/value", 4, "must be a string", server='of type string: "integer"'),
    one("spec/suites/0/env", [{"name": "A"}, {"name": "A"}], "variable names must be unique"),
    one("spec/suites/0/env", MANY_ENV, "must have 0 to 64 entries", server="must have at most 64 items"),
    *WRONG_TEMPLATES,
)
