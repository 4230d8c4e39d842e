"""Manifests at the edge of what is allowed: the API server and the parser accept them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from disttest_operator.core.api.spec_schema import CAPABILITY
from tests.data.good_manifest import ON_ITS_NODE, REMOVE, changed
from tests.data.wrong import POD
from tests.data.wrong_manifests import MANY_ENV, MANY_SUITES, MANY_THRESHOLDS
from tests.data.wrong_templates import EXISTS, MANY_VOLUMES

# More than any pod could be given, but nothing that admission could not look at.
FULL_SUITES = [
    {
        "name": f"s{suite}",
        "files": ["a" * 256] * 64,
        "select": "a" * 1024,
        "env": [{"name": f"V{number:0>127}"} for number in range(64)],
    }
    for suite in range(32)
]


LONG_VOLUMES = [
    {"name": f"{number:0>63}", "hostPath": {"path": "/" + "a" * 255, "type": "CharDevice"}} for number in range(16)
]
LONG_MOUNTS = [
    {"name": f"{number // 2:0>63}", "mountPath": f"/{number:0>255}", "readOnly": True} for number in range(32)
]
NEXT_TO_TAKEN_PATHS = [
    {"name": "v0", "mountPath": path}
    for path in (
        "/tmpfs",  # noqa: S108  # in the container
        "/dev/infiniband",
        "/etc/nccl.conf",
        "/opt/pytorch",
        "/var/lib",
        "/a.b",
        "/.a",
        "/artifacts2",
    )
]
ONE_NODE_OF_CPUS = {"spec/nodes": 1, "spec/gpusPerNode": 0, "spec/ranksPerNode": REMOVE, "spec/backend": REMOVE}
COLLECTIVES_AS_A = {"name": "a", "builtin": "collectives"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """At the edge of what is allowed; refusing it would be wrong."""

    id: str
    change: Mapping[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        return changed(self.change)


RIGHT: Final[tuple[Right, ...]] = (
    Right(id="as it is", change={}),
    Right(id="only suites", change={"spec": {"suites": [{"name": "collectives"}]}}),
    Right(id="longest name", change={"metadata/name": "x" * 52}),
    Right(id="unknown built-in suite", change={"spec/suites/0": {"name": "of-a-newer-image"}}),
    Right(id="most nodes and ranks", change={"spec/nodes": 512, "spec/gpusPerNode": 16, "spec/ranksPerNode": 16}),
    Right(id="rdma", change={"spec/transport": "rdma"}),
    Right(id="a plugin by the default backend", change={"spec/transport": "plugin", "spec/backend": REMOVE}),
    Right(id="tcp with gloo", change={"spec/transport": "tcp", "spec/backend": "gloo"}),
    Right(id="fewer ranks than gpus", change={"spec/ranksPerNode": 1}),
    Right(id="cpu", change={"spec/gpusPerNode": 0, "spec/backend": "gloo", "spec/ranksPerNode": 128}),
    Right(id="cpu by default", change={"spec/gpusPerNode": 0, "spec/backend": REMOVE}),
    Right(id="gloo with gpus", change={"spec/backend": "gloo", "spec/ranksPerNode": 9}),
    Right(id="most suites", change={"spec/suites": MANY_SUITES[:32], "spec/thresholds": REMOVE}),
    Right(id="longest suite name", change={"spec/suites/0/name": "a" * 63}),
    Right(id="most files", change={"spec/suites/2/files": ["test/a.py"] * 64}),
    Right(id="longest path", change={"spec/suites/2/files/0": "a" * 256}),
    Right(id="all kinds of paths", change={"spec/suites/2/files": ["*", "a/.b/c.d.py", ".a", "**/[!a]?.py", "-=+@,"]}),
    Right(id="select of any source", change={f"spec/suites/{n}/select": "a" * 1024 for n in range(3)}),
    Right(id="odd select", change={"spec/suites/1/select": "test_x[True-2.5] or (not a::b/c.py and d)"}),
    Right(id="variables of suites", change={f"spec/suites/{n}/env": MANY_ENV[:64] for n in range(3)}),
    Right(id="a variable of both", change={"spec/suites/0/env/0/name": "NCCL_DEBUG"}),
    Right(id="most of everything that suites say", change={"spec/suites": FULL_SUITES}),
    Right(id="no retries", change={"spec/retries/flaky": 0}),
    Right(id="most retries", change={"spec/retries": {"flaky": 5}}),
    Right(id="no thresholds", change={"spec/thresholds": []}),
    Right(id="most thresholds", change={"spec/thresholds": MANY_THRESHOLDS[:40]}),
    Right(id="thresholds of the smallest gang", change={"spec/nodes": 1, "spec/ranksPerNode": 2}),
    Right(id="thresholds of ranks without GPUs", change=ONE_NODE_OF_CPUS),
    Right(id="thresholds on own files", change={"spec/suites": [{"name": "mine", "files": ["a.py"]}]}),
    Right(id="thresholds on the suite by another name", change={"spec/suites": [COLLECTIVES_AS_A]}),
    Right(id="no artifacts", change={"spec/artifacts": REMOVE}),
    Right(id="no quarantine", change={"spec/quarantine": REMOVE}),
    Right(id="longest name of a list", change={"spec/quarantine/configMap/name": "a" * 253}),
    Right(id="most variables", change={"spec/env": MANY_ENV[:64]}),
    Right(id="variable of a similar name", change={"spec/env/0/name": "RANKS"}),
    Right(id="longest variable", change={"spec/env/0/name": "V" * 128}),
    Right(id="longest value", change={"spec/env/0/value": "x" * 4096}),
    Right(id="image by digest", change={"spec/image": "example:5000/a/b@sha256:" + "0" * 64}),
    Right(id="another vendor", change={"spec/gpuResource": "amd.com/gpu"}),
    Right(id="gpus of no vendor of ours", change={f"{POD}/resources/limits": {"amd.com/gpu": 1}}),
    Right(id="case as long as run", change={"spec/timeouts": {"caseSeconds": 60, "runSeconds": 60}}),
    Right(id="a run shorter than a case by default", change={"spec/timeouts": {"runSeconds": 10}}),
    Right(id="a case longer than a run by default", change={"spec/timeouts": {"caseSeconds": 86400}}),
    Right(id="no timeouts", change={"spec/timeouts": REMOVE}),
    Right(id="deleted at once", change={"spec/ttlSecondsAfterFinished": 0}),
    Right(id="nulls are absent", change={"spec/series": None, "spec/template": None, "spec/suites/0/builtin": None}),
    Right(id="whole float", change={"spec/nodes": 2.0, "spec/thresholds": REMOVE}),  # CEL counts ranks, and no floats
    Right(id="quantities", change={f"{POD}/resources/limits": {"cpu": "1.5", "memory": "100Mi", "a.b/c": 0}}),
    Right(id="empty value", change={f"{POD}/tolerations/0/value": ""}),
    Right(id="tolerates all", change={f"{POD}/tolerations/0": {"operator": "Exists"}}),
    Right(
        id="tolerates a while",
        change={f"{POD}/tolerations/0": EXISTS | {"effect": "NoExecute", "tolerationSeconds": 0}},
    ),
    Right(
        id="topology of Kueue",
        change={"spec/template/metadata/annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}},
    ),
    Right(id="on its node", change={f"{POD}/{name}": value for name, value in ON_ITS_NODE.items()}),
    Right(id="privileged", change={f"{POD}/securityContext": {"privileged": True}}),
    Right(
        id="all capabilities", change={f"{POD}/securityContext": {"capabilities": {"add": list(CAPABILITY.choices)}}}
    ),
    Right(id="a user", change={f"{POD}/securityContext": {"runAsUser": 2**31 - 1}}),
    Right(id="nothing special", change={f"{POD}/{name}": False for name in ("hostNetwork", "hostIPC", "hostPID")}),
    Right(id="most volumes and mounts", change={f"{POD}/volumes": LONG_VOLUMES, f"{POD}/volumeMounts": LONG_MOUNTS}),
    Right(
        id="next to paths that are taken",
        change={f"{POD}/volumes": MANY_VOLUMES[:1], f"{POD}/volumeMounts": NEXT_TO_TAKEN_PATHS},
    ),
    Right(
        id="annotations of others", change={"spec/template/metadata/annotations": {"k8s.v1.cni.cncf.io/networks": "r"}}
    ),
    Right(id="longest label key", change={"spec/template/metadata/labels": {"example.com/" + "a" * 63: ""}}),
)
