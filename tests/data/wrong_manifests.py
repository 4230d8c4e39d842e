"""Manifests that nobody should get away with: refused by the API server and by the parser, each with a sentence."""

from typing import Final

from tests.data.good_manifest import REMOVE
from tests.data.wrong import OURS, POD, Wrong, one, refused
from tests.data.wrong_templates import WRONG_TEMPLATES

AT_LEAST = "spec/thresholds/0/minBusBandwidthBytesPerSecond"
LABEL = "write lower-case letters, digits and '-', beginning and ending with a letter or digit"
BELOW = "write paths below /opt/pytorch"
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
    one("kind", "DistTests", "kind: write DistTest", server="must be DistTest"),
    one("apiVersion", "disttest.dev/v1", "apiVersion: write disttest.dev/v1alpha1", server='in version "v1" cannot'),
    one("spec", REMOVE, "spec: is missing", server="spec: Required value"),
    one("spec", None, "spec: is missing", server="spec: Required value"),
    one("spec", [], "spec: write a mapping", server='must be of type object: "array"'),
    one("specs", {}, "specs: is unknown; did you mean spec?", server='unknown field "specs"'),
    one("metadata/lables", {}, "did you mean labels?", server='unknown field "metadata.lables"'),
    one("metadata/name", REMOVE, "metadata.name: is missing", server="name or generateName is required"),
    one("metadata/name", "x" * 53, "at most 52 lower-case letters"),
    one("metadata/name", "2x8", "beginning with a letter"),
    one("metadata/name", "night.2x8", "write a name of at most 52 lower-case letters, digits and '-'"),
    one("metadata/name", "Nightly", "write a name of at most 52", server="a lowercase RFC 1123 subdomain"),
    # Unknown and later fields
    one("spec/node", 2, "spec.node: is unknown; did you mean nodes?", server='unknown field "spec.node"'),
    one("spec/gpuspernode", 2, "did you mean gpusPerNode?", server='unknown field "spec.gpuspernode"'),
    one("spec/timeouts/case", 2, "spec.timeouts.case: is unknown; known fields", server='"spec.timeouts.case"'),
    one(
        "spec/retries/infrastructure",
        6,
        "spec.retries.infrastructure: write a whole number from 0 to 5",
        server="less than or equal to 5",
    ),
    one(
        "spec/concurrencyPolicy",
        "Replace",
        "spec.concurrencyPolicy: write one of Allow, Wait",
        server='supported values: "Allow", "Wait"',
    ),
    one("spec/suspend", "yes", "spec.suspend: write true or false", server='must be of type boolean: "string"'),
    one("spec/cancel", 1, "spec.cancel: write true or false", server='must be of type boolean: "integer"'),
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
    one("spec/suites", REMOVE, "spec.suites: is missing", server="spec.suites: Required value"),
    one("spec/suites", [], "write 1 to 32 entries", server="should have at least 1 items"),
    one("spec/suites", MANY_SUITES, "write 1 to 32 entries", server="must have at most 32 items"),
    one("spec/suites", "collectives", "spec.suites: write a list", server='must be of type array: "string"'),
    one("spec/suites/0", "collectives", "spec.suites[0]: write a mapping", server='of type object: "string"'),
    one("spec/suites/0/name", REMOVE, "spec.suites[0].name: is missing", server="spec.suites[0].name: Required value"),
    one("spec/suites/0/name", "Collectives", LABEL),
    one("spec/suites/0/name", "", "write at least 1 character", server="should be at least 1 chars long"),
    one("spec/suites/0/name", "a" * 64, "write at most 63 characters", server="may not be more than 63 bytes"),
    one("spec/suites/0/builtin", "a/b", LABEL),
    one("spec/suites/0/configMap", {"name": "x"}, "builtin, configMap and files exclude each other"),
    one("spec/suites/0/files", ["a.py"], "builtin, configMap and files exclude each other"),
    one("spec/suites/1/files", ["a.py"], "builtin, configMap and files exclude each other"),
    one("spec/suites/1/configMap", {}, "configMap.name: is missing", server="configMap.name: Required value"),
    one("spec/suites/1/configMap/name", "My_Tests", "write the name of a ConfigMap of this namespace"),
    one("spec/suites/1/name", "collectives", "each suite needs a name of its own"),
    # Files of the image
    one("spec/suites/2/files", [], "write 1 to 64 entries", server="should have at least 1 items"),
    one("spec/suites/2/files", ["a.py"] * 65, "write 1 to 64 entries", server="must have at most 64 items", name="65"),
    one("spec/suites/2/files", "a.py", "files: write a list", server='must be of type array: "string"'),
    one("spec/suites/2/files/0", "", "write at least 1 character", server="should be at least 1 chars long"),
    one("spec/suites/2/files/0", "a" * 257, "write at most 256 characters", server="may not be more than 256 bytes"),
    one("spec/suites/2/files/0", 1, "write a string (in quotes", server='of type string: "integer"'),
    *(
        one("spec/suites/2/files/0", path, BELOW)
        for path in ("/etc/passwd", "test/", "../a.py", "a/../../b.py", "a//b.py", "a/./b.py", "..", "a b.py", "a\nb")
    ),
    # Which cases
    one("spec/suites/1/select", "", "write at least 1 character", server="should be at least 1 chars long"),
    one("spec/suites/1/select", "a" * 1025, "write at most 1024 characters", server="may not be more than 1024 bytes"),
    one("spec/suites/1/select", ["a"], "write a string (in quotes", server='of type string: "array"'),
    *(
        one("spec/suites/1/select", expression, "write an expression of pytest's -k")
        for expression in ("-x", "a && b", "a = 1", "'a'", "a\nor b")
    ),
    # Numbers
    one("spec/nodes", 0, "write a whole number from 1 to 512", server="should be greater than or equal to 1"),
    one("spec/nodes", 513, "write a whole number from 1 to 512", server="should be less than or equal to 512"),
    one("spec/nodes", "2", "write a whole number from 1 to 512, not '2'", server='of type integer: "string"'),
    one("spec/nodes", 1.5, "write a whole number from 1 to 512", server="must be of type integer"),
    one("spec/nodes", True, "write a whole number from 1 to 512", server="spec.nodes in body must be of type"),
    one("spec/gpusPerNode", 17, "from 0 to 16", server="less than or equal to 16"),
    one("spec/gpusPerNode", -1, "from 0 to 16", server="greater than or equal to 0"),
    one("spec/gpusPerNode", 0, "backend nccl needs GPUs; write backend: gloo"),
    one("spec/gpusPerNode", 4, "write ranksPerNode of at most gpusPerNode"),
    one("spec/ranksPerNode", 9, "write ranksPerNode of at most gpusPerNode"),
    one("spec/ranksPerNode", 0, "from 1 to 128", server="greater than or equal to 1"),
    one("spec/ranksPerNode", 129, "from 1 to 128", server="less than or equal to 128"),
    one("spec/ttlSecondsAfterFinished", -1, "from 0 to 31536000", server="greater than or equal to 0"),
    one("spec/timeouts/queueSeconds", 0, "from 1 to 604800", server="greater than or equal to 1"),
    one("spec/timeouts/joinSeconds", "5m", "from 1 to 86400, not '5m'", server='of type integer: "string"'),
    one("spec/timeouts/caseSeconds", 7201, "write caseSeconds of at most runSeconds"),
    one("spec/timeouts/runSeconds", 604801, "from 1 to 604800", server="less than or equal to 604800"),
    one("spec/timeouts/runSeconds", 299, "write caseSeconds of at most runSeconds"),
    one("spec/retries", 1, "spec.retries: write a mapping", server='must be of type object: "integer"'),
    one("spec/retries/flaky", -1, "from 0 to 5", server="greater than or equal to 0"),
    one("spec/retries/flaky", 6, "from 0 to 5", server="less than or equal to 5"),
    # Thresholds
    one("spec/thresholds", {}, "spec.thresholds: write a list", server='must be of type array: "object"'),
    one("spec/thresholds", MANY_THRESHOLDS, "write 0 to 40 entries", server="must have at most 40 items"),
    one("spec/thresholds/0/collective", REMOVE, "collective: is missing", server="collective: Required value"),
    one(
        "spec/thresholds/0/collective", "allreduce", "write one of all_reduce", server='supported values: "all_reduce"'
    ),
    one("spec/thresholds/0/sizeBytes", 0, "from 1 to 1099511627776", server="greater than or equal to 1"),
    one(
        "spec/thresholds/0/sizeBytes", 2**40 + 1, "from 1 to 1099511627776", server="less than or equal to 109951162777"
    ),
    one("spec/thresholds/0/sizeBytes", "1G", "from 1 to 1099511627776, not '1G'", server='type integer: "string"'),
    one(AT_LEAST, REMOVE, "is missing", server="PerSecond: Required value"),
    one(AT_LEAST, 0, "from 1 to", server="greater than or equal to 1"),
    one(AT_LEAST, 1.5, "whole number from 1", server="must be of type integer"),
    one(AT_LEAST, 10**15 + 1, "to 1000000000000000", server="or equal to 100000"),
    one("spec/thresholds/0/dtype", "bf16", "write one of float32", server='supported values: "float32"'),
    one("spec/thresholds/0/dtype", "bfloat16", "there is one threshold for each collective, size and type"),
    one("spec/thresholds/1/dtype", REMOVE, "there is one threshold for each collective, size and type"),
    one("spec/thresholds/0/ratio", 0.9, "ratio: is unknown", server='unknown field "spec.thresholds[0].ratio"'),
    one("spec/suites", [{"name": "data-parallel"}], "no suite measures what thresholds are about"),
    one("spec/suites", [{"name": "collectives", "builtin": "data-parallel"}], "add the suite collectives"),
    Wrong(id="one rank", change={"spec/nodes": 1, "spec/ranksPerNode": 1}, parser="one rank alone measures nothing"),
    Wrong(id="one GPU", change=ONE_GPU, parser="write more nodes or ranksPerNode, or remove thresholds"),
    # Words
    one("spec/artifacts", {}, "persistentVolumeClaim: is missing", server="persistentVolumeClaim: Required value"),
    one("spec/artifacts/persistentVolumeClaim", "My_Claim", "write the name of a PersistentVolumeClaim"),
    one("spec/artifacts/emptyDir", {}, "artifacts.emptyDir: is unknown", server='field "spec.artifacts.emptyDir"'),
    one("spec/quarantine", {}, "quarantine.configMap: is missing", server="quarantine.configMap: Required value"),
    one("spec/quarantine/configMap", {}, "configMap.name: is missing", server="configMap.name: Required value"),
    one("spec/quarantine/configMap/name", "My_List", "write the name of a ConfigMap of this namespace"),
    one("spec/quarantine/cases", [], "quarantine.cases: is unknown", server='field "spec.quarantine.cases"'),
    one("spec/backend", "mpi", "write one of nccl, gloo", server='supported values: "nccl", "gloo"'),
    one("spec/placement", "spread", "write one of Spread, Any", server='supported values: "Spread", "Any"'),
    one("spec/series", "Nightly", LABEL),
    one("spec/series", "adhoc", "adhoc is the series of runs that name none"),
    one("spec/series", 8, "write a string (in quotes", server='of type string: "integer"'),
    one("spec/image", "my image", "without spaces"),
    one("spec/image", "", "write at least 1 character", server="at least 1 chars long"),
    one("spec/gpuResource", "gpu", "like nvidia.com/gpu"),
    one("spec/queueName", "GPU", "write the name of a LocalQueue"),
    # Environment
    one("spec/env/0/name", "MASTER_ADDR", "are set by the runner; leave this one out"),
    one("spec/env/0/name", "RANK", "are set by the runner; leave this one out"),
    one("spec/env/0/name", "DISTTEST_PLAN", "are set by the runner; leave this one out"),
    one("spec/env/0/name", "PET_NNODES", "are set by the runner; leave this one out"),
    one("spec/env/0/name", "2X", "write letters, digits and '_', not beginning with a digit"),
    one("spec/env/0/name", REMOVE, "spec.env[0].name: is missing", server="spec.env[0].name: Required value"),
    one("spec/env/0/name", "V" * 129, "write at most 128 characters", server="may not be more than 128 bytes"),
    one("spec/env/0/value", 1, "write a string (in quotes", server='of type string: "integer"'),
    one("spec/env/0/value", "x" * 4097, "write at most 4096 characters", server="may not be more than 4096 bytes"),
    one("spec/env/1/name", "NCCL_DEBUG", "each variable can be set once"),
    one("spec/env", {"NCCL_DEBUG": "INFO"}, "spec.env: write a list", server='unknown field "spec.env.NCCL_DEBUG"'),
    one("spec/env", MANY_ENV, "write 0 to 64 entries", server="must have at most 64 items"),
    one("spec/suites/0/env/0/name", "WORLD_SIZE", "are set by the runner; leave this one out"),
    one("spec/suites/0/env/0/name", "TORCHELASTIC_RUN_ID", "are set by the runner; leave this one out"),
    one("spec/suites/0/env/0/name", "A-B", "write letters, digits and '_', not beginning with a digit"),
    one("spec/suites/0/env/0/value", 4, "write a string (in quotes", server='of type string: "integer"'),
    one("spec/suites/0/env", [{"name": "A"}, {"name": "A"}], "each variable can be set once"),
    one("spec/suites/0/env", MANY_ENV, "write 0 to 64 entries", server="must have at most 64 items"),
    *WRONG_TEMPLATES,
)
