"""Manifests that nobody should get away with: refused by the API server and by the parser, each with a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.data.good_manifest import REMOVE, changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """`change` maps paths into GOOD to new values. `server` is for where the API server has words of its own."""

    id: str
    change: Mapping[str, Any] = field(default_factory=dict)
    parser: str
    server: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        return changed(self.change)


def one(path: str, value: Any, says: str, *, server: str = "", name: str = "") -> Wrong:
    """A row that changes one value; `says` is what both say, or the parser alone where `server` is given."""
    shown = "absent" if value is REMOVE else str(value)[:72]
    return Wrong(id=name or f"{path}={shown}", change={path: value}, parser=says, server=server)


UNSUPPORTED = "is not supported by this version of DistTest; leave it out"
AT_LEAST = "spec/thresholds/0/minBusBandwidthBytesPerSecond"
OURS = "is set by the operator; leave it out"
LABEL = "write lower-case letters, digits and '-', beginning and ending with a letter or digit"
BELOW = "write paths below /opt/pytorch"
POD = "spec/template/spec"
EXISTS = {"key": "a", "operator": "Exists"}
MANY_LABELS = {f"l{i}": "x" for i in range(33)}
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


MANY_VOLUMES = [{"name": f"v{number}", "emptyDir": {}} for number in range(17)]
NO_CAPABILITY: Final[Mapping[str, Any]] = {"capabilities": {"add": []}}

ONE_GPU = {"spec/nodes": 1, "spec/gpusPerNode": 1, "spec/ranksPerNode": REMOVE}


def _refused(path: str, value: Any, says: str = UNSUPPORTED) -> Wrong:
    shown = path.replace("/", ".").replace(".0", "[0]")
    return one(path, value, f"{shown}: {says}", server=f'unknown field "{shown}"', name=f"{path} refused")


def _mounted(paths: list[str], says: str, *, server: str = "") -> Wrong:
    """One volume at all of them."""
    mounts = [{"name": "a", "mountPath": path} for path in paths]
    change = {f"{POD}/volumes": [{"name": "a", "emptyDir": {}}], f"{POD}/volumeMounts": mounts}
    return Wrong(id=f"mounted at {' '.join(paths)[:40]}", change=change, parser=says, server=server)


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
    _refused("spec/suites/0/retries", 1),
    _refused("spec/suites/0/thresholds", []),
    _refused("spec/suites/0/env/0/valueFrom", {}),
    _refused("spec/files", ["test/a.py"]),
    _refused("spec/select", "not gloo"),
    _refused("spec/env/0/valueFrom", {}),
    _refused(f"{POD}/affinity", {}),
    _refused(f"{POD}/resourceClaims", []),
    _refused(f"{POD}/restartPolicy", "Always", OURS),
    _refused(f"{POD}/containers", [], OURS),
    _refused(f"{POD}/subdomain", "x", OURS),
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
    # Template
    one("spec/template/metadata/labels", {"disttest.dev/name": "x"}, "are set by controllers; leave them out"),
    one("spec/template/metadata/labels", {"kueue.x-k8s.io/queue-name": "q"}, "name a queue in spec.queueName"),
    one("spec/template/metadata/labels", {"job-name": "x"}, "are set by controllers; leave them out"),
    one("spec/template/metadata/labels", {"azure.workload.identity/use": "true"}, "give identities"),
    one("spec/template/metadata/labels", {"a b": "x"}, "write keys like app or example.com/app"),
    one("spec/template/metadata/labels", {"a": "x y"}, "write letters, digits, '-', '_' and '.'"),
    one("spec/template/metadata/labels", {"a": 1}, "write a string (in quotes", server='of type string: "integer"'),
    one("spec/template/metadata/labels", MANY_LABELS, "at most 32 entries", server="must have at most 32 items"),
    one("spec/template/metadata/annotations", {"batch.kubernetes.io/x": "y"}, "are set by controllers"),
    one("spec/template/metadata/name", "x", "metadata.name: is unknown", server='"spec.template.metadata.name"'),
    one(f"{POD}/nodeSelector", ["gpu"], "write a mapping of names to values", server='of type object: "array"'),
    one(f"{POD}/tolerations/0/operator", "Is", "write one of Exists, Equal", server='supported values: "Exists"'),
    one(f"{POD}/tolerations/0/effect", "Never", "write one of NoSchedule", server='supported values: "NoSchedule"'),
    one(f"{POD}/tolerations/0/value", "x", "operator Exists takes no value"),
    one(f"{POD}/tolerations/0", {}, "a toleration without key tolerates every taint"),
    one(f"{POD}/tolerations/0", EXISTS | {"tolerationSeconds": 5}, "tolerationSeconds needs effect: NoExecute"),
    one(f"{POD}/resources/limits", {"memory": "lots"}, "write a quantity such as 4, 500m or 16Gi"),
    one(f"{POD}/resources/limits", {"memory": -1}, "write a quantity such as 4, 500m or 16Gi"),
    one(f"{POD}/resources/limits", {"nvidia.com/gpu": 8}, "GPUs are asked for by gpusPerNode"),
    one(f"{POD}/resources/requests", {"nvidia.com/gpu": "8"}, "GPUs are asked for by gpusPerNode"),
    one(f"{POD}/priorityClassName", "High!", "write the name of a PriorityClass"),
    one(f"{POD}/serviceAccountName", "a b", "write the name of a ServiceAccount"),
    *(
        one("spec/template/metadata/annotations", {key: "x"}, "take protections away or give devices and identities")
        for key in (
            *("container.apparmor.security.beta.kubernetes.io/test", "seccomp.security.alpha.kubernetes.io/pod"),
            *("container.seccomp.security.alpha.kubernetes.io/test", "io.kubernetes.cri-o.userns-mode"),
            *("cdi.k8s.io/gpu", "iam.amazonaws.com/role"),
        )
    ),
    # What leaves PodSecurity restricted
    one(f"{POD}/hostNetwork", "yes", "write true or false", server='of type boolean: "string"'),
    one(f"{POD}/hostUsers", False, "hostUsers: is unknown", server='"spec.template.spec.hostUsers"'),
    one(
        f"{POD}/securityContext",
        {"allowPrivilegeEscalation": True},
        f"allowPrivilegeEscalation: {OURS}",
        server='"spec.template.spec.securityContext.allowPrivilegeEscalation"',
    ),
    one(f"{POD}/securityContext", {"runAsUser": -1}, "from 0 to 2147483647", server="greater than or equal to 0"),
    one(f"{POD}/securityContext", {"runAsUser": 2**31}, "from 0 to 2147483647", server="or equal to 2147483647"),
    one(f"{POD}/securityContext", {"runAsGroup": 0}, "runAsGroup: is unknown", server='securityContext.runAsGroup"'),
    one(f"{POD}/securityContext", {"capabilities": {}}, "add: is missing", server="capabilities.add: Required value"),
    *(
        one(
            f"{POD}/securityContext", {"capabilities": {"add": [name]}}, "write one of AUDIT_CONTROL", server="upported"
        )
        for name in ("ALL", "CAP_IPC_LOCK", "ipc_lock", "IPC_LOK")
    ),
    one(f"{POD}/securityContext", NO_CAPABILITY, "write 1 to 41 entries", server="should have at least 1 items"),
    one(f"{POD}/volumes", {}, "spec.template.spec.volumes: write a list", server='of type array: "object"'),
    one(f"{POD}/volumes", MANY_VOLUMES, "write 0 to 16 entries", server="must have at most 16 items"),
    one(f"{POD}/volumes", [MANY_VOLUMES[0]] * 2, "each volume needs a name of its own"),
    one(f"{POD}/volumes", [{"emptyDir": {}}], "name: is missing", server="volumes[0].name: Required value"),
    one(f"{POD}/volumes", [{"name": "a"}], "write exactly one of hostPath, persistentVolumeClaim and emptyDir"),
    one(f"{POD}/volumes", [MANY_VOLUMES[0] | {"hostPath": {"path": "/a"}}], "write exactly one of hostPath"),
    one(f"{POD}/volumes", [{"name": "a", "secret": {}}], "secret: is unknown; known", server='volumes[0].secret"'),
    *(
        one(f"{POD}/volumes", [{"name": name, "emptyDir": {}}], "are taken; choose another name")
        for name in ("tmp", "dshm", "artifacts", "runner", "suite-0")
    ),
    *(
        one(f"{POD}/volumes", [{"name": "a", "hostPath": {"path": path}}], "write an absolute path of letters")
        for path in ("data", "/data/", "/a//b", "/a/../b", "/a/./b", "/..", "/a b", "/a:b", "/a,b", "/a\n")
    ),
    one(
        f"{POD}/volumes", [{"name": "a", "hostPath": {"path": "/"}}], "at least 2 character", server="at least 2 chars"
    ),
    one(f"{POD}/volumes", [{"name": "a", "hostPath": {}}], "path: is missing", server="hostPath.path: Required value"),
    *(
        one(
            f"{POD}/volumes",
            [{"name": "a", "hostPath": {"path": "/a", "type": kind}}],
            "write one of Dir",
            server="upp",
        )
        for kind in ("directory", "DirectoryOrCreate", "")
    ),
    one(f"{POD}/volumes", [{"name": "a", "emptyDir": {"medium": "Disk"}}], "write one of Memory", server="supported"),
    one(f"{POD}/volumes", [{"name": "a", "emptyDir": {"sizeLimit": "much"}}], "write a quantity such as 4, 500m"),
    one(f"{POD}/volumes", [{"name": "a", "persistentVolumeClaim": {}}], "claimName: is missing", server="Required val"),
    one(f"{POD}/volumeMounts", [{"name": "a", "mountPath": "/a"}], "each of volumeMounts names one of volumes"),
    _mounted(["/a", "/a"], "one mount hides another"),
    _mounted(["/a/b", "/a"], "one mount hides another"),
    _mounted(["data"], "write an absolute path"),
    _mounted(["/a/../opt/disttest"], "write an absolute path"),
    _mounted([f"/a{number}" for number in range(33)], "write 0 to 32 entries", server="must have at most 32 items"),
    *(
        _mounted([path], "are taken: write a path that is none of them")
        for path in (
            *("/tmp", "/tmp/x", "/dev", "/dev/shm", "/artifacts/x", "/opt", "/opt/disttest/suites/mine"),  # noqa: S108  # in the container
            *("/etc", "/etc/hosts", "/proc/self", "/sys", "/var", "/var/run/secrets/x", "/dev/termination-log"),
        )
    ),
    Wrong(
        id="a node's directory that could be written to",
        change={
            f"{POD}/volumes": [{"name": "a", "hostPath": {"path": "/data"}}],
            f"{POD}/volumeMounts": [{"name": "a", "mountPath": "/data"}],
        },
        parser="tests do not write to their node; add readOnly: true",
    ),
    one(f"{POD}/imagePullSecrets", ["registry"], "imagePullSecrets[0]: write a mapping", server='object: "string"'),
)
