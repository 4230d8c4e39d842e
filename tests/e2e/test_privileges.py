"""What leaves PodSecurity `restricted`, on real nodes: what a gang gets of them when allowed, and when not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.clusters import real_nodes
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.clusters.real_nodes import SYSTEM
from tests.support.operators.operator import Status, config_map, disttest, finished

RUN_SECONDS = 180
REFUSED_SECONDS = 60
DEPLOYMENT = "deployment/disttest-operator"
JOBS_MAY = {"disttest.dev/allow": "privileged"}  # which manifests/policies ask for
PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"} | JOBS_MAY
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"} | JOBS_MAY
ALLOWED = ("host-network", "root", "capability:IPC_LOCK", "host-path:/etc")
TIMEOUTS = {"queueSeconds": 120, "rendezvousSeconds": 60, "caseSeconds": 60, "runSeconds": 120}

CAPABILITIES = """
import os
import pathlib
import subprocess
import sys

LOCK = '''
import ctypes, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))
libc = ctypes.CDLL(None, use_errno=True)
memory = ctypes.create_string_buffer(1 << 20)
print(libc.mlock(memory, ctypes.c_size_t(len(memory))))
'''

def of_process(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(field + ":"))

def lock_beyond_the_limit():
    return subprocess.run([sys.executable, "-c", LOCK], capture_output=True, text=True, check=True).stdout.strip()
"""

ON_ITS_NODE = (
    CAPABILITIES
    + """
import socket

import pytest
import torch
import torch.distributed as dist

def test_root_has_this_capability_and_no_other():
    assert os.getuid() == 0
    assert int(of_process("CapEff"), 16) == 1 << 14
    assert of_process("NoNewPrivs") == "1"

def test_memory_can_be_locked_beyond_the_limit():
    assert lock_beyond_the_limit() == "0"

def test_the_nodes_directory_is_there_and_cannot_be_written_to():
    node = pathlib.Path("/data/etc")
    assert (node / "passwd").read_text().startswith("root:")
    with pytest.raises(OSError, match="Read-only file system"):
        (node / "left-by-a-test").touch()

def test_the_root_cannot_be_written_to():
    with pytest.raises(OSError, match="Read-only file system"):
        pathlib.Path("/left-by-a-test").touch()

def test_ranks_of_both_nodes_meet_on_the_nodes_network():
    assert any(name == "uplink" for _, name in socket.if_nameindex()), "the node's, which no pod has"
    dist.init_process_group("gloo")
    summed = torch.ones(1)
    dist.all_reduce(summed)
    assert summed.item() == 4
    dist.destroy_process_group()
"""
)

AS_USER = (
    CAPABILITIES
    + """
def test_a_user_who_is_not_root_gains_nothing():
    assert os.getuid() == 65532
    assert int(of_process("CapBnd"), 16) == 1 << 14, "it is in the bounding set"
    assert int(of_process("CapEff"), 16) == 0

def test_memory_cannot_be_locked_beyond_the_limit():
    assert lock_beyond_the_limit() == "-1"
"""
)


ON_ITS_OWN = """
import os
import pathlib

def test_the_user_is_who_was_asked_for():
    assert os.getuid() == 1000

def test_an_empty_directory_can_be_written_to():
    file = pathlib.Path("/scratch/file")
    file.write_text("x" * 4096)
    assert file.stat().st_size == 4096
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster whose operator allows the same things in two namespaces, of which one lets such pods in."""

    cluster: SessionCluster
    privileged: str
    restricted: str

    def start(self, name: str, namespace: str, pod: Manifest, **spec: object) -> None:
        said: Manifest = {"timeouts": TIMEOUTS, "template": {"spec": pod}, **spec}
        self.cluster.apply(disttest(namespace, name, **said))

    def start_own(self, name: str, namespace: str, pod: Manifest, text: str) -> None:
        """A file of tests."""
        self.cluster.apply(config_map(namespace, name, text))
        self.start(name, namespace, pod, suites=[{"name": "own", "configMap": {"name": name}}])

    def ended(self, name: str, namespace: str, seconds: float = REFUSED_SECONDS) -> Status:
        return finished(self.cluster, namespace, name, seconds)

    def pods(self, name: str, namespace: str) -> list[Manifest]:
        return self.cluster.find("pods", namespace, f"disttest.dev/name={name}")


@pytest.fixture(scope="module")
def site(installed: SessionCluster) -> Iterator[Site]:
    with installed.namespace(PRIVILEGED) as privileged, installed.namespace(RESTRICTED) as restricted:
        items = [f"{privileged}/{item}" for item in ALLOWED] + [f"{restricted}/capability:IPC_LOCK"]
        deployment = installed.get("deployment", "disttest-operator", SYSTEM)
        assert deployment is not None
        before = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        roll_out(installed, [*before, f"--allow={','.join(items)}"])
        try:
            yield Site(installed, privileged, restricted)
        finally:
            roll_out(installed, before)


def roll_out(cluster: SessionCluster, args: list[str]) -> None:
    """Back when only operators with these arguments are left."""
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]
    cluster.kubectl("-n", SYSTEM, "patch", DEPLOYMENT, "--type=json", f"--patch={json.dumps(change)}")
    limit = f"--timeout={real_nodes.ROLLOUT_SECONDS}s"
    cluster.kubectl("-n", SYSTEM, "rollout", "status", DEPLOYMENT, limit)
    selector = "app.kubernetes.io/name=disttest-operator"
    cluster.wait_until("one operator is left", lambda: len(cluster.find("pods", SYSTEM, selector)) == 1, 60)


def test_root_gets_the_capability_the_nodes_network_and_its_directory_to_read(site: Site) -> None:
    pod = {
        "hostNetwork": True,
        "securityContext": {"runAsUser": 0, "capabilities": {"add": ["IPC_LOCK"]}},
        "volumes": [{"name": "etc", "hostPath": {"path": "/etc", "type": "Directory"}}],
        "volumeMounts": [{"name": "etc", "mountPath": "/data/etc", "readOnly": True}],
    }
    site.start_own("on-its-nodes", site.privileged, pod, ON_ITS_NODE)
    status = site.ended("on-its-nodes", site.privileged, RUN_SECONDS)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status
    assert status["cases"]["passed"] == status["cases"]["total"] == 5
    pods = site.pods("on-its-nodes", site.privileged)
    assert {one["spec"]["nodeName"] for one in pods} == set(real_nodes.REAL_NODES)
    assert all(one["status"]["podIP"] == one["status"]["hostIP"] for one in pods)


def test_a_user_who_is_not_root_gains_nothing_by_a_capability(site: Site) -> None:
    """There are no ambient capabilities: what is added gets lost when the user is no longer root."""
    pod = {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
    site.start_own("as-user", site.privileged, pod, AS_USER)
    status = site.ended("as-user", site.privileged, RUN_SECONDS)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status


def test_another_user_and_an_empty_directory_need_no_allowance_and_stay_restricted(site: Site) -> None:
    pod = {
        "securityContext": {"runAsUser": 1000},
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    site.start_own("on-its-own", site.restricted, pod, ON_ITS_OWN)
    status = site.ended("on-its-own", site.restricted, RUN_SECONDS)
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status


def test_two_pods_on_the_nodes_network_do_not_share_a_node(site: Site) -> None:
    """Both leaders would listen on the same port."""
    timeouts = TIMEOUTS | {"queueSeconds": 20}
    site.start("crowded", site.privileged, {"hostNetwork": True}, nodes=3, placement="Any", timeouts=timeouts)
    status = site.ended("crowded", site.privileged)
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "GangTimeout"), status
    assert "free ports" in status["message"]


@pytest.mark.parametrize(
    ("name", "pod", "item"),
    [
        ("host-pid", {"hostPID": True}, "host-pid"),
        ("capability", {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "capability:SYS_ADMIN"),
        ("path", {"volumes": [{"name": "a", "hostPath": {"path": "/var"}}]}, "host-path:/var"),
        ("account", {"serviceAccountName": "other"}, "service-account:other"),
    ],
)
def test_what_is_not_allowed_is_refused_before_anything_is_made(
    name: str, pod: Manifest, item: str, site: Site
) -> None:
    site.start(name, site.privileged, pod)
    status = site.ended(name, site.privileged)
    assert (status["verdict"], status["reason"]) == ("Errored", "InvalidSpec"), status
    assert f"ask an administrator for --allow={site.privileged}/{item}" in status["message"]
    assert site.cluster.find("jobs", site.privileged, f"disttest.dev/name={name}") == []


def test_what_is_allowed_in_one_namespace_is_not_allowed_in_another(site: Site) -> None:
    site.start("elsewhere", site.restricted, {"securityContext": {"runAsUser": 0}})
    status = site.ended("elsewhere", site.restricted)
    assert (status["verdict"], status["reason"]) == ("Errored", "InvalidSpec"), status


def test_a_namespace_that_is_restricted_stays_so_whatever_the_operator_allows(site: Site) -> None:
    site.start("restricted", site.restricted, {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}})
    status = site.ended("restricted", site.restricted)
    assert (status["verdict"], status["reason"]) == ("Errored", "PodsForbidden"), status
    assert 'violates PodSecurity "restricted' in status["message"]
