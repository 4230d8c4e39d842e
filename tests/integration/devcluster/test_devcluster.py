"""Jobs, Deployments, logs and rights in the development cluster, as the operator and the runner rely on them."""

import json
import subprocess

import pytest

from devcluster.machine import settings
from tests.support import patience
from tests.support.clusters.cluster import KubectlError, Manifest, SessionCluster
from tests.support.clusters.pods import DEAF, SLEEP_ON, a_container, a_pod, field, run_pod

ALL_REDUCE = """
import os, socket, time
import torch, torch.distributed as dist
deadline = time.monotonic() + 30
while True:  # the other pod's name exists as soon as it has an address
    try:
        socket.gethostbyname(os.environ["MASTER_ADDR"])
        break
    except OSError:
        assert time.monotonic() < deadline, "no address for " + os.environ["MASTER_ADDR"]
        time.sleep(0.1)
dist.init_process_group("gloo")
x = torch.full((4,), dist.get_rank() + 1.0)
dist.all_reduce(x)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.environ['NODE']}: {x.tolist()}", flush=True)
dist.destroy_process_group()  # without it gloo's threads now and then abort the interpreter at its end
"""

WHO_AM_I = """
import json, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount/"
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
request = urllib.request.Request(
    "https://kubernetes.default.svc/apis/authentication.k8s.io/v1/selfsubjectreviews", json.dumps(review).encode(),
    {"Authorization": "Bearer " + open(place + "token").read(), "Content-Type": "application/json"})
tls = ssl.create_default_context(cafile=place + "ca.crt")
print(json.load(urllib.request.urlopen(request, context=tls))["status"]["userInfo"]["username"])
"""

# Ill in its first life, well in the second, which finds the file.
SERVER = """
import http.server, pathlib
lives = pathlib.Path("/lives")
ill = not (lives / "first").exists()
(lives / "first").touch()
print("ill" if ill else "well", flush=True)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if ill and self.path == "/live" else 200)
        self.end_headers()
        self.wfile.write(b"answer to " + self.path.encode())
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
"""


@pytest.mark.parametrize("kind", ["nodes", "Namespace", "sa", "clusterroles.rbac.authorization.k8s.io"])
def test_what_tests_read_is_what_kubectl_prints(cluster: SessionCluster, namespace: str, kind: str) -> None:
    """They look through a proxy, since that costs less."""
    printed = {one["metadata"]["uid"]: one for one in _printed(cluster, kind, namespace)["items"]}
    read = {one["metadata"]["uid"]: one for one in cluster.find(kind, namespace)}
    same = read.keys() & printed.keys()
    assert same
    assert all(read[uid] == printed[uid] or _is_newer(read[uid], printed[uid]) for uid in same)
    name = read[min(same)]["metadata"]["name"]
    one, shown = cluster.get(kind, name, namespace), _printed(cluster, kind, namespace, name)
    assert one is not None
    assert one == shown or _is_newer(one, shown)
    assert cluster.get(kind, "none-such", namespace) is None


def test_a_kind_that_is_unknown_is_kubectls_to_refuse(cluster: SessionCluster) -> None:
    with pytest.raises(KubectlError, match="the server doesn't have a resource type"):
        cluster.find("nosuchkinds")


def _printed(cluster: SessionCluster, kind: str, namespace: str, *name: str) -> Manifest:
    found: Manifest = json.loads(cluster.kubectl("get", kind, *name, "-n", namespace, "-o", "json"))
    return found


def _is_newer(one: Manifest, other: Manifest) -> bool:
    """Whether it was written in between."""
    return bool(one["metadata"]["resourceVersion"] != other["metadata"]["resourceVersion"])


def job_end(cluster: SessionCluster, name: str, namespace: str) -> str:
    """Complete or Failed; empty while it runs."""
    job = cluster.get("job", name, namespace) or {"status": {}}
    found = [entry["type"] for entry in job["status"].get("conditions", []) if entry["status"] == "True"]
    return next((kind for kind in found if kind in ("Complete", "Failed")), "")


def test_two_pods_on_two_nodes_reduce_by_the_name_of_their_headless_service(
    cluster: SessionCluster, namespace: str
) -> None:
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": "reduce"}}
    index = field("metadata.annotations['batch.kubernetes.io/job-completion-index']")
    env = [
        {"name": "RANK", **index},
        {"name": "NODE", **field("spec.nodeName")},
        {"name": "WORLD_SIZE", "value": "2"},
        {"name": "MASTER_ADDR", "value": f"reduce-0.reduce.{namespace}.svc"},
        {"name": "MASTER_PORT", "value": "29500"},
        {"name": "OMP_NUM_THREADS", "value": "1"},
    ]
    apart = {"labelSelector": {"matchLabels": {"job-name": "reduce"}}, "topologyKey": "kubernetes.io/hostname"}
    template = {
        "subdomain": "reduce",
        "restartPolicy": "Never",
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "containers": [a_container(ALL_REDUCE, env=env)],
    }
    job = {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimit": 0,
        "template": {"spec": template},
    }
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "reduce"}, "spec": service},
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "reduce"}, "spec": job},
        ],
        namespace,
    )
    ended = cluster.wait_until("the Job has ended", lambda: job_end(cluster, "reduce", namespace), 60)
    lines = cluster.kubectl("logs", "-n", namespace, "-l", "job-name=reduce", "--tail=-1").splitlines()
    assert ended == "Complete", lines
    nodes = {pod["spec"]["nodeName"] for pod in cluster.find("pods", namespace, "job-name=reduce")}
    assert len(nodes) == 2
    assert sorted(line.split(" on ")[0] for line in lines) == ["rank 0 of 2", "rank 1 of 2"]
    assert all(line.endswith("[3.0, 3.0, 3.0, 3.0]") for line in lines)


def test_a_followed_log_ends_with_its_container_and_its_parts_can_be_read(
    cluster: SessionCluster, namespace: str
) -> None:
    script = "import time\nfor i in range(5): print('line', i, flush=True); time.sleep(0.2)"
    cluster.apply(a_pod("talker", a_container(script)), namespace)
    cluster.wait_until(
        "the log can be read", lambda: "line 0" in cluster.kubectl("logs", "talker", "-n", namespace, check=False)
    )
    lines = [f"line {number}" for number in range(5)]
    assert cluster.kubectl("logs", "-f", "talker", "-n", namespace).splitlines() == lines
    assert cluster.kubectl("logs", "talker", "--tail=2", "-n", namespace).splitlines() == lines[-2:]
    assert cluster.kubectl("logs", "talker", "--limit-bytes=9", "-n", namespace) == "line 0\nli"
    refused = cluster.kubectl("logs", "talker", "--timestamps", "-n", namespace, check=False)
    assert "do not emulate these log options: timestamps" in refused


def test_foreground_deletion_returns_when_the_pods_are_gone(cluster: SessionCluster, namespace: str) -> None:
    template = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [a_container(DEAF + SLEEP_ON)],
    }
    job = {"completions": 2, "parallelism": 2, "template": {"spec": template}}
    cluster.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "deaf"}, "spec": job}, namespace)

    def deaf_pods() -> bool:
        logs = cluster.kubectl("logs", "-l", "job-name=deaf", "-n", namespace, check=False)
        return logs.split() == ["deaf", "deaf"]

    cluster.wait_until("both pods ignore SIGTERM", deaf_pods)
    cluster.kubectl("delete", "job", "deaf", "-n", namespace, "--cascade=foreground")
    assert cluster.find("pods", namespace) == []


def test_the_bridge_keeps_its_address_whatever_pods_come_and_go(cluster: SessionCluster) -> None:
    """Pods remember it for half a minute: with another one they reach nothing for as long."""
    if cluster.dev is None:
        pytest.skip("looks at the network of a cluster on this machine, and KUBECONFIG chose another one")
    dev = cluster.dev

    def ip(command: str) -> str:
        inside = dev.command_inside(["ip", *command.split()])
        return subprocess.run(inside, text=True, capture_output=True, check=True, timeout=patience.stretched(30)).stdout

    def address() -> str:
        [link] = json.loads(ip(f"-json link show {settings.BRIDGE}"))
        return str(link["address"])

    before = address()
    ip("link add lowest address 00:00:00:00:00:01 type veth peer name other")
    try:
        ip(f"link set lowest master {settings.BRIDGE}")
        assert address() == before
    finally:
        ip("link delete lowest")


def test_a_restricted_namespace_refuses_a_privileged_pod(cluster: SessionCluster) -> None:
    with cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as restricted:
        pod = a_pod("privileged", a_container(SLEEP_ON, securityContext={"privileged": True}))
        with pytest.raises(KubectlError, match='violates PodSecurity "restricted'):
            cluster.apply(pod, restricted)


def test_a_pod_reaches_the_api_as_its_service_account(cluster: SessionCluster, namespace: str) -> None:
    ended = run_pod(cluster, a_pod("asker", a_container(WHO_AM_I)), namespace)
    log = cluster.kubectl("logs", "asker", "-n", namespace)
    assert (ended["exitCode"], log.strip()) == (0, f"system:serviceaccount:{namespace}:default")


def test_a_host_program_has_exactly_the_rights_of_its_service_account(cluster: SessionCluster, namespace: str) -> None:
    config = cluster.kubeconfig_for(namespace, "default")
    asked = subprocess.run(
        cluster.command("get", "pods", kubeconfig=config),
        capture_output=True,
        text=True,
        check=False,
        timeout=patience.stretched(30),
    )
    assert f'User "system:serviceaccount:{namespace}:default" cannot list resource "pods"' in asked.stderr


def test_a_deployment_gets_ready_is_restarted_when_ill_and_answers_through_the_api(
    cluster: SessionCluster, namespace: str
) -> None:
    def probe(path: str, **more: int) -> Manifest:
        return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 1, "failureThreshold": 1, **more}

    container = a_container(
        SERVER,
        ports=[{"name": "http", "containerPort": 8080}],
        readinessProbe=probe("/ready"),
        livenessProbe=probe("/live", initialDelaySeconds=1),
        volumeMounts=[{"name": "lives", "mountPath": "/lives"}],
    )
    labels = {"app": "server"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "lives", "emptyDir": {}}],
        },
    }
    port = {"name": "http", "port": 8080}
    cluster.apply(
        [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "server"},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
            },
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "server"},
                "spec": {"selector": labels, "ports": [port]},
            },
        ],
        namespace,
    )

    def second_life() -> Manifest | None:
        for pod in cluster.find("pods", namespace, "app=server"):
            for status in pod["status"].get("containerStatuses", []):
                if status["restartCount"] == 1 and status["ready"]:
                    return {"name": pod["metadata"]["name"], "status": status}
        return None

    found = cluster.wait_until("the second life is ready", second_life)
    assert found["status"]["lastState"]["terminated"]["exitCode"] == 137  # PID 1 without a handler ignores SIGTERM
    assert cluster.kubectl("logs", found["name"], "--previous", "-n", namespace).splitlines()[0] == "ill"
    assert cluster.kubectl("logs", found["name"], "-n", namespace).splitlines()[0] == "well"
    proxy = f"/api/v1/namespaces/{namespace}/services/server:http/proxy/metrics"
    answer = lambda: cluster.kubectl("get", "--raw", proxy, check=False) == "answer to /metrics"  # noqa: E731 - reads best in place
    cluster.wait_until("the API server's proxy answers", answer)
