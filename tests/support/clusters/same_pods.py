"""Pods that end in every way a container can, and what of their status a node decides."""

from typing import Any

from tests.support.clusters.cluster import Manifest

IMAGE = "registry.devcluster/disttest-operator:dev"
NONE = "registry.devcluster/disttest-operator:none"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
OBEDIENT = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); "
    "print('ready', flush=True); time.sleep(600)"
)
SAY = "open('/dev/termination-log', 'w').write({words!r}); {then}"
EAT = "hoard = [b'x' * (1 << 20) for _ in range(1000)]"
KEY = {"name": "no", "key": "a"}  # of a ConfigMap that does not exist
FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}
MEMORY = {"limits": {"memory": "64Mi"}}


def a_pod(name: str, script: str, **more: Any) -> Manifest:
    """A pod of one container that runs Python."""
    container: Manifest = {
        "name": "main",
        "image": IMAGE,
        "command": ["python", "-c", script],
        **more.pop("container", {}),
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def an_init(script: str) -> list[Manifest]:
    return [{"name": "first", "image": IMAGE, "command": ["python", "-c", script]}]


# How each ends: alone, or deleted once its log has a line.
BY_THEMSELVES = {
    "well": a_pod("well", "print('well')"),
    "with exit code 3": a_pod("three", "raise SystemExit(3)"),
    "by SIGABRT": a_pod("abort", "import os; os.abort()"),
    "with a termination message": a_pod("message", SAY.format(words="all is well", then="")),
    "with a message too long": a_pod("long", SAY.format(words="x" * 5000, then="raise SystemExit(1)")),
    "with its log as its message": a_pod(
        "fallback", "print('first'); print('last words'); raise SystemExit(1)", container=FALLBACK
    ),
    "well, and its log is no message": a_pod(
        "quiet", "print('first')", container=FALLBACK
    ),
    "out of memory": a_pod("memory", EAT, container={"resources": MEMORY}),
    "out of memory in a child": a_pod(
        "memory-child",
        f"import subprocess, sys; sys.exit(5 if subprocess.run([sys.executable, '-c', {EAT!r}]).returncode else 0)",
        container={"resources": MEMORY},
    ),
    "by a command that does not exist": a_pod("command", "", container={"command": ["/no/such/command"]}),
    "in an init container": a_pod("init", "print('never')", initContainers=an_init("raise SystemExit(4)")),
    "after an init container": a_pod("after-init", "print('then')", initContainers=an_init("print('first')")),
    "by its deadline": a_pod("deadline", OBEDIENT, activeDeadlineSeconds=3),
    "twice, and then well": a_pod(
        "again",
        "import os; p='/data/x'; n=len(os.listdir('/data')); open(f'/data/{n}', 'w'); raise SystemExit(n < 1)",
        restartPolicy="OnFailure",
        container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        volumes=[{"name": "data", "emptyDir": {}}],
    ),
    "well, with a missing ConfigMap that is not mounted": a_pod(
        "unmounted", "print('well')", volumes=[{"name": "data", "configMap": {"name": "no"}}]
    ),
}  # fmt: skip  # a row reads as a sentence
DELETED = {
    "deaf": a_pod("deaf", DEAF),
    "obedient": a_pod("obedient", OBEDIENT),
}
# With the reason for which they wait in the end.
STUCK = {
    "for an image that is away": (a_pod("no-image", "", container={"image": NONE}), "ImagePullBackOff"),
    "for an image of a wrong name": (
        a_pod("bad-image", "", container={"image": "registry.devcluster/UPPER"}), "InvalidImageName",
    ),
    "for an image that is not to be pulled": (
        a_pod("never", "", container={"image": NONE, "imagePullPolicy": "Never"}), "ErrImageNeverPull",
    ),
    "for the ConfigMap of a variable": (
        a_pod("env", "", container={"env": [{"name": "A", "valueFrom": {"configMapKeyRef": KEY}}]}),
        "CreateContainerConfigError",
    ),
    "for the ConfigMap of a volume": (
        a_pod(
            "volume", "",
            container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            volumes=[{"name": "data", "configMap": {"name": "no"}}],
        ),
        "ContainerCreating",
    ),
    "for the image of an init container": (
        a_pod("init-image", "", initContainers=[{"name": "first", "image": NONE, "command": ["true"]}]),
        "ImagePullBackOff",
    ),
}  # fmt: skip  # a row reads as a sentence


def waiting_reasons(pod: Manifest) -> set[str]:
    return {
        one["state"]["waiting"]["reason"]
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in pod["status"].get(kind) or ()
        if "waiting" in one["state"]
    }


def essence(pod: Manifest) -> Manifest:
    """What a node decides of a pod's status, without addresses, times and ids."""
    status = pod["status"]
    return {
        "phase": status.get("phase"),
        **{key: status[key] for key in ("reason", "message") if key in status},
        "conditions": {
            one["type"]: f"{one['status']} {one.get('reason', '')}".strip() for one in status.get("conditions") or ()
        },
        **{
            f"{kind}: {one['name']}": _of_container(one)
            for kind in ("initContainerStatuses", "containerStatuses")
            for one in status.get(kind) or ()
        },
    }


def _of_container(status: Manifest) -> Manifest:
    found = {key: status.get(key) for key in ("ready", "started", "restartCount")}
    for when in ("state", "lastState"):
        for name, entry in (status.get(when) or {}).items():
            kept = ("exitCode", "signal", "reason", "message")
            found[when] = {name: {key: entry[key] for key in kept if entry.get(key)}}
    return found


MESSAGE_OF = "{}.state.{}.message"
# Pod and field -> why a process node says something else.
KNOWN = {
    ("memory-child", "containerStatuses: main.state.terminated.exitCode"): "it kills the container, not the process",
    ("command", MESSAGE_OF.format("containerStatuses: main", "terminated")): "there is no runc to say it",
    ("no-image", MESSAGE_OF.format("containerStatuses: main", "waiting")): "there is no registry to say it",
    ("bad-image", MESSAGE_OF.format("containerStatuses: main", "waiting")): "a different parser",
    ("init-image", MESSAGE_OF.format("initContainerStatuses: first", "waiting")): "there is no registry to say it",
}


def differences(name: str, process: Manifest, real: Manifest) -> list[str]:
    """One line for each field on which the nodes do not agree; and for each on which they should not, but do."""
    there, here = flat(process), flat(real)
    found = {path for path in there.keys() | here.keys() if there.get(path) != here.get(path)}
    known = {path for pod, path in KNOWN if pod == name}
    return [
        f"{path}: {there.get(path)!r} on the process node, {here.get(path)!r} on the real one"
        for path in sorted(found ^ known)
    ]


def flat(value: Manifest, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found |= flat(inner, f"{path}{key}.") if isinstance(inner, dict) else {f"{path}{key}": inner}
    return found
