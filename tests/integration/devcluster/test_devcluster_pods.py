"""What a pod of a process node sees, and how it ends."""

import json

from tests.support.clusters.cluster import SessionCluster
from tests.support.clusters.pods import DEAF, SLEEP_ON, a_container, a_pod, container_state, field, pod_status, run_pod

EAT_MEMORY = "eaten = []\nwhile True: eaten.append(bytearray(b'x' * 10_000_000))"

LOOK_AROUND = """
import json, os, pathlib, socket
read = lambda path: pathlib.Path(path).read_text()
try:
    pathlib.Path("/usr/written").write_text("")
    host = "writable"
except OSError as error:
    host = error.strerror
print(json.dumps({
    "config": {file.name: file.read_text() for file in pathlib.Path("/config").iterdir()},
    "uid": os.environ["UID"], "node": os.environ["NODE"], "expanded": os.environ["EXPANDED"],
    "annotation": read("/podinfo/note"), "key": os.environ["KEY"],
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "hostname": socket.gethostname(), "address": socket.gethostbyname(socket.gethostname()), "own": os.environ["IP"],
    "host": host,
    "scratch": pathlib.Path("/scratch/x").write_text("ok"), "tmp": pathlib.Path("/tmp/x").write_text("ok"),
    "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "capabilities": [line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith("CapEff")],
}))
"""


def test_a_termination_message_survives_sigkill(cluster: SessionCluster, namespace: str) -> None:
    pod = a_pod("deaf", a_container(DEAF + SLEEP_ON), activeDeadlineSeconds=1)
    ended = run_pod(cluster, pod, namespace)
    assert (ended["exitCode"], json.loads(ended["message"])) == (137, {"case": 7})
    assert pod_status(cluster, "deaf", namespace)["reason"] == "DeadlineExceeded"


def test_a_container_above_its_memory_limit_is_killed_for_it(cluster: SessionCluster, namespace: str) -> None:
    limit = {"resources": {"limits": {"memory": "200Mi"}}}
    ended = run_pod(cluster, a_pod("eater", a_container(DEAF + EAT_MEMORY, **limit)), namespace)
    assert (ended["exitCode"], ended["reason"], json.loads(ended["message"])) == (137, "OOMKilled", {"case": 7})


def test_a_pod_sees_its_volumes_and_itself_and_the_host_read_only(cluster: SessionCluster, namespace: str) -> None:
    env = [
        {"name": "UID", **field("metadata.uid")},
        {"name": "NODE", **field("spec.nodeName")},
        {"name": "IP", **field("status.podIP")},
        {"name": "EXPANDED", "value": "on $(NODE)"},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "greeting"}}},
    ]
    note = {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}
    volumes = [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "podinfo", "downwardAPI": {"items": [note]}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "128Mi"}},
    ]
    # A volume at /tmp is the usual way to write below a read-only root.
    places = {"config": "/config", "podinfo": "/podinfo", "scratch": "/scratch", "tmp": "/tmp", "shm": "/dev/shm"}  # noqa: S108 - in the pod
    mounts = [{"name": name, "mountPath": place} for name, place in places.items()]
    context = {
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    container = a_container(LOOK_AROUND, env=env, volumeMounts=mounts, securityContext=context)
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"greeting": "hello"},
    }
    cluster.apply(settings, namespace)
    ended = run_pod(cluster, a_pod("looker", container, volumes=volumes), namespace)
    log = cluster.kubectl("logs", "looker", "-n", namespace)
    assert ended["exitCode"] == 0, log
    pod = cluster.get("pod", "looker", namespace) or {}
    assert json.loads(log) == {
        "config": {"greeting": "hello"},
        "uid": pod["metadata"]["uid"],
        "node": pod["spec"]["nodeName"],
        "expanded": f"on {pod['spec']['nodeName']}",
        "annotation": "of the pod",
        "key": "hello",
        "shm": 128 << 20,
        "hostname": "looker",
        "address": pod["status"]["podIP"],
        "own": pod["status"]["podIP"],
        "host": "Read-only file system",
        "scratch": 2,
        "tmp": 2,
        "pids": [1],
        "capabilities": ["0000000000000000"],
    }


def test_a_pod_that_waits_says_why(cluster: SessionCluster, namespace: str) -> None:
    unknown = a_pod("unknown", {**a_container(SLEEP_ON), "image": "registry.invalid/none:1"})
    mount = {"volumeMounts": [{"name": "config", "mountPath": "/config"}]}
    unmounted = a_pod(
        "unmounted", a_container(SLEEP_ON, **mount), volumes=[{"name": "config", "configMap": {"name": "none"}}]
    )
    cluster.apply([unknown, unmounted], namespace)
    reasons = set()

    def backs_off() -> bool:
        reasons.add(container_state(cluster, "unknown", namespace).get("waiting", {}).get("reason"))
        return "ImagePullBackOff" in reasons

    cluster.wait_until("the image's pull backs off", backs_off)
    assert "ErrImagePull" in reasons
    chosen = "--field-selector=reason=FailedMount"
    messages = lambda: cluster.kubectl("get", "events", "-n", namespace, chosen, "-o", "jsonpath={.items[*].message}")  # noqa: E731 - reads best in place
    assert 'configmap "none" not found' in cluster.wait_until("an event names the ConfigMap", messages)
    assert container_state(cluster, "unmounted", namespace)["waiting"]["reason"] == "ContainerCreating"


def test_what_a_process_node_does_not_emulate_fails_by_name(cluster: SessionCluster, namespace: str) -> None:
    probe = {"livenessProbe": {"exec": {"command": ["true"]}}}
    cluster.apply(a_pod("probed", a_container(SLEEP_ON, **probe)), namespace)
    failed = lambda: (s := pod_status(cluster, "probed", namespace)).get("phase") == "Failed" and s  # noqa: E731 - reads best in place
    status = cluster.wait_until("the pod fails", failed)
    assert (status["reason"], "livenessProbe" in status["message"]) == ("NotEmulated", True)
