"""What no template may say: refused by the API server and by the parser, each with a sentence."""

from collections.abc import Mapping
from typing import Any, Final

from tests.data.wrong import OURS, POD, Wrong, one

EXISTS = {"key": "a", "operator": "Exists"}
MANY_LABELS = {f"l{i}": "x" for i in range(33)}
MANY_VOLUMES = [{"name": f"v{number}", "emptyDir": {}} for number in range(17)]
NO_CAPABILITY: Final[Mapping[str, Any]] = {"capabilities": {"add": []}}


def _mounted(paths: list[str], says: str, *, server: str = "") -> Wrong:
    """One volume at all of them."""
    mounts = [{"name": "a", "mountPath": path} for path in paths]
    change = {f"{POD}/volumes": [{"name": "a", "emptyDir": {}}], f"{POD}/volumeMounts": mounts}
    return Wrong(id=f"mounted at {' '.join(paths)[:40]}", change=change, parser=says, server=server)


WRONG_TEMPLATES: Final[tuple[Wrong, ...]] = (
    one("spec/template/metadata/labels", {"disttest.dev/name": "x"}, "that controllers set"),
    one("spec/template/metadata/labels", {"kueue.x-k8s.io/queue-name": "q"}, "use spec.queueName for a queue"),
    one("spec/template/metadata/labels", {"job-name": "x"}, "that controllers set"),
    one("spec/template/metadata/labels", {"azure.workload.identity/use": "true"}, "grant identities"),
    one("spec/template/metadata/labels", {"a b": "x"}, "keys must be names such as app or example.com/app"),
    one("spec/template/metadata/labels", {"a": "x y"}, "must be empty or consist of letters, digits, '-', '_' and '.'"),
    one("spec/template/metadata/labels", {"a": 1}, "must be a string", server='of type string: "integer"'),
    one("spec/template/metadata/labels", MANY_LABELS, "at most 32 entries", server="must have at most 32 items"),
    one("spec/template/metadata/annotations", {"batch.kubernetes.io/x": "y"}, "that controllers set"),
    one("spec/template/metadata/name", "x", "metadata.name: is unknown", server='"spec.template.metadata.name"'),
    one(f"{POD}/nodeSelector", ["gpu"], "must be a mapping of names to values", server='of type object: "array"'),
    one(f"{POD}/tolerations/0/operator", "Is", "must be one of Exists, Equal", server='supported values: "Exists"'),
    one(f"{POD}/tolerations/0/effect", "Never", "must be one of NoSchedule", server='supported values: "NoSchedule"'),
    one(f"{POD}/tolerations/0/value", "x", "operator Exists must not have a value"),
    one(f"{POD}/tolerations/0", {}, "a toleration without a key requires operator: Exists"),
    one(f"{POD}/tolerations/0", EXISTS | {"tolerationSeconds": 5}, "tolerationSeconds requires effect: NoExecute"),
    one(f"{POD}/resources/limits", {"memory": "lots"}, "must be a quantity such as 4, 500m or 16Gi"),
    one(f"{POD}/resources/limits", {"memory": -1}, "must be a quantity such as 4, 500m or 16Gi"),
    one(f"{POD}/resources/limits", {"nvidia.com/gpu": 8}, "GPUs are requested with gpusPerNode"),
    one(f"{POD}/resources/requests", {"nvidia.com/gpu": "8"}, "GPUs are requested with gpusPerNode"),
    one(f"{POD}/priorityClassName", "High!", "must be the name of a PriorityClass"),
    one(f"{POD}/serviceAccountName", "a b", "must be the name of a ServiceAccount"),
    *(
        one("spec/template/metadata/annotations", {key: "x"}, "weaken isolation or grant devices and identities")
        for key in (
            *("container.apparmor.security.beta.kubernetes.io/test", "seccomp.security.alpha.kubernetes.io/pod"),
            *("container.seccomp.security.alpha.kubernetes.io/test", "io.kubernetes.cri-o.userns-mode"),
            *("cdi.k8s.io/gpu", "iam.amazonaws.com/role"),
        )
    ),
    # What leaves PodSecurity restricted
    one(f"{POD}/hostNetwork", "yes", "must be true or false", server='of type boolean: "string"'),
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
    one(f"{POD}/securityContext", {"capabilities": {}}, "add: is required", server="capabilities.add: Required value"),
    *(
        one(
            f"{POD}/securityContext",
            {"capabilities": {"add": [name]}},
            "must be one of AUDIT_CONTROL",
            server="upported",  # codespell:ignore upported
        )
        for name in ("ALL", "CAP_IPC_LOCK", "ipc_lock", "IPC_LOK")
    ),
    one(f"{POD}/securityContext", NO_CAPABILITY, "must have 1 to 41 entries", server="should have at least 1 items"),
    one(f"{POD}/volumes", {}, "spec.template.spec.volumes: must be a list", server='of type array: "object"'),
    one(f"{POD}/volumes", MANY_VOLUMES, "must have 0 to 16 entries", server="must have at most 16 items"),
    one(f"{POD}/volumes", [MANY_VOLUMES[0]] * 2, "volume names must be unique"),
    one(f"{POD}/volumes", [{"emptyDir": {}}], "name: is required", server="volumes[0].name: Required value"),
    one(f"{POD}/volumes", [{"name": "a"}], "must have exactly one of hostPath, persistentVolumeClaim and emptyDir"),
    one(f"{POD}/volumes", [MANY_VOLUMES[0] | {"hostPath": {"path": "/a"}}], "must have exactly one of hostPath"),
    one(f"{POD}/volumes", [{"name": "a", "secret": {}}], "secret: is unknown; known", server='volumes[0].secret"'),
    *(
        one(f"{POD}/volumes", [{"name": name, "emptyDir": {}}], "are reserved; choose another name")
        for name in ("tmp", "dshm", "artifacts", "runner", "suite-0")
    ),
    *(
        one(f"{POD}/volumes", [{"name": "a", "hostPath": {"path": path}}], "must be an absolute path of letters")
        for path in ("data", "/data/", "/a//b", "/a/../b", "/a/./b", "/..", "/a b", "/a:b", "/a,b", "/a\n")
    ),
    one(
        f"{POD}/volumes", [{"name": "a", "hostPath": {"path": "/"}}], "at least 2 character", server="at least 2 chars"
    ),
    one(f"{POD}/volumes", [{"name": "a", "hostPath": {}}], "path: is required", server="hostPath.path: Required value"),
    *(
        one(
            f"{POD}/volumes",
            [{"name": "a", "hostPath": {"path": "/a", "type": kind}}],
            "must be one of Dir",
            server="upp",
        )
        for kind in ("directory", "DirectoryOrCreate", "")
    ),
    one(f"{POD}/volumes", [{"name": "a", "emptyDir": {"medium": "Disk"}}], "must be one of Memory", server="supported"),
    one(f"{POD}/volumes", [{"name": "a", "emptyDir": {"sizeLimit": "much"}}], "must be a quantity such as 4, 500m"),
    one(
        f"{POD}/volumes", [{"name": "a", "persistentVolumeClaim": {}}], "claimName: is required", server="Required val"
    ),
    one(f"{POD}/volumeMounts", [{"name": "a", "mountPath": "/a"}], "each volumeMount must name one of volumes"),
    _mounted(["/a", "/a"], "mount paths must not be equal to or below each other"),
    _mounted(["/a/b", "/a"], "mount paths must not be equal to or below each other"),
    _mounted(["data"], "must be an absolute path"),
    _mounted(["/a/../opt/disttest"], "must be an absolute path"),
    _mounted([f"/a{number}" for number in range(33)], "must have 0 to 32 entries", server="must have at most 32 items"),
    *(
        _mounted([path], "are reserved: choose a path that is not equal to")
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
        parser="mounts of a hostPath must have readOnly: true; use a persistentVolumeClaim",
    ),
    one(f"{POD}/imagePullSecrets", ["registry"], "imagePullSecrets[0]: must be a mapping", server='object: "string"'),
)
