"""PID 1 of a cluster: starts its programs, and ends everything as soon as one of them ends.

Only the nodes may end: a test may kill one to see what a lost node does. When this process ends, for whatever reason,
the kernel kills every process below it and removes network, mounts and links with their namespaces.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from devcluster.controlplane import kubeconfig
from devcluster.controlplane.kubeconfig import TOKENS, ApiProbe
from devcluster.imaging import image_registry
from devcluster.machine import settings
from devcluster.machine.settings import API_PORT, GATEWAY, SERVICE_NETWORK
from devcluster.programs import packages
from devcluster.realnode import cgroups

ETCD = "http://127.0.0.1:2379"
AUDIT_LOG = "logs/audit.log"
ETCD_PEER = "http://127.0.0.1:2380"
# No cloud, no routes and no load balancers here; everything else that a cluster has by default runs.
WITHOUT = ("node-ipam-controller", "node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller")
# With the default limits the controllers take 5 s to make their own service accounts, and 50 pods are bound a second.
RATES = ("--kube-api-qps=500", "--kube-api-burst=1000")

Programs = Mapping[str, tuple[str, ...]]


def etcd(programs: Programs) -> tuple[str, ...]:
    return (
        *programs["etcd"],
        "--name=dev",
        "--data-dir=etcd",
        "--unsafe-no-fsync",  # its data is temporary
        "--log-level=warn",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster=dev={ETCD_PEER}",
    )


def api_server(programs: Programs, audit_policy: str = "") -> tuple[str, ...]:
    audit = (f"--audit-policy-file={audit_policy}", f"--audit-log-path={AUDIT_LOG}") if audit_policy else ()
    return (
        *programs["kube-apiserver"],
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={GATEWAY}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC",
        # Beyond the default ones, of which PodSecurity is one. The second is on in OpenShift: it asks for more rights.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--allow-privileged=true",  # so that it is PodSecurity that refuses, with its message
        f"--token-auth-file={TOKENS}",
        "--client-ca-file=pki/ca.crt",
        "--tls-cert-file=pki/apiserver.crt",
        "--tls-private-key-file=pki/apiserver.key",
        "--kubelet-client-certificate=pki/kubelet-client.crt",
        "--kubelet-client-key=pki/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=pki/serviceaccounts.pub",
        "--service-account-signing-key-file=pki/serviceaccounts.key",
        *audit,
    )


def controller_manager(programs: Programs) -> tuple[str, ...]:
    return (
        *programs["kube-controller-manager"],
        "--kubeconfig=kube-controller-manager.kubeconfig",
        "--leader-elect=false",
        "--use-service-account-credentials",
        "--root-ca-file=pki/ca.crt",
        "--service-account-private-key-file=pki/serviceaccounts.key",
        "--flex-volume-plugin-dir=flex-volume-plugins",  # it creates this folder, by default in /usr/libexec
        *RATES,
        "--controllers=" + ",".join(("*", *(f"-{name}" for name in WITHOUT))),
    )


def scheduler(programs: Programs) -> tuple[str, ...]:
    return (*programs["kube-scheduler"], "--kubeconfig=kube-scheduler.kubeconfig", "--leader-elect=false", *RATES)


READY_SECONDS = 120
POLL_SECONDS = 0.05
LOG_TAIL_LINES = 15
READY_FILE = "ready.json"
SETTINGS_FILE = "settings.json"
AGAIN = ".again"  # of a file with a program's name: the program is restarted when it ends
STUBS = "stubs"  # the process that is all stub nodes


class Supervisor:
    def __init__(self, state: Path) -> None:
        self._state = state
        self._logs = state / "logs"
        self._logs.mkdir()
        self._programs: dict[int, str] = {}
        self._starts: dict[str, Callable[[], None]] = {}
        self.may_end: frozenset[str] = frozenset()

    def start(
        self, name: str, *command: str, pass_fds: tuple[int, ...] = (), env: Mapping[str, str] | None = None
    ) -> None:
        self._starts[name] = lambda: self.start(name, *command, pass_fds=pass_fds, env=env)
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._state, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=pass_fds, env=env
            )
        (self._state / f"{name}.pid").write_text(str(process.pid))
        process.returncode = 0  # reaped below, with the orphans that PID 1 inherits; keeps Popen from waiting for it
        self._programs[process.pid] = name

    def start_module(self, name: str, module: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> None:
        self.start(name, sys.executable, "-m", module, *arguments, pass_fds=pass_fds)

    def reap(self, *, block: bool) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, 0 if block else os.WNOHANG))[0]:
                name = self._programs.pop(ended[0], None)
                if name is None:
                    continue
                again = self._state / f"{name}{AGAIN}"
                if again.exists():  # DevCluster.restart killed it
                    again.unlink()
                    self._starts[name]()
                elif name not in self.may_end:
                    code = os.waitstatus_to_exitcode(ended[1])
                    log = (self._logs / f"{name}.log").read_text(errors="replace").splitlines()
                    sys.exit(f"{name} ended with {code}; the end of its log:\n" + "\n".join(log[-LOG_TAIL_LINES:]))

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not condition():
            self.reap(block=False)
            if time.monotonic() > deadline:
                sys.exit(f"{what}: timeout after {READY_SECONDS} s; see the logs in {self._logs}")
            time.sleep(POLL_SECONDS)


def _start_cluster(state: Path, wanted: settings.ClusterSettings, supervisor: Supervisor) -> dict[str, float]:
    """Return the seconds until each step was reached."""
    started = time.monotonic()
    seconds: dict[str, float] = {}

    def reached(step: str) -> None:
        seconds[step] = round(time.monotonic() - started, 2)

    settings.create_network(wanted.nodes)
    supervisor.start("etcd", *etcd(wanted.programs))
    supervisor.start("kube-apiserver", *api_server(wanted.programs, wanted.audit_policy))
    api = ApiProbe(state)
    supervisor.wait_until("the API server is ready", api.is_ready)
    reached("api")
    # Not earlier: they back off from a server that does not listen yet.
    supervisor.start("kube-controller-manager", *controller_manager(wanted.programs))
    supervisor.start("kube-scheduler", *scheduler(wanted.programs))
    supervisor.start_module("dns", "devcluster.controlplane.dns", kubeconfig.INSIDE)
    for number, name in enumerate(wanted.node_names, start=1):
        supervisor.start_module(name, "devcluster.node", str(state), name, str(number))
    if wanted.stubs:
        arguments = (str(state), str(wanted.stubs), f"--gpus={wanted.gpus}")
        supervisor.start_module(STUBS, "devcluster.stubnode", *arguments)
    if wanted.real:
        _start_real_nodes(state, wanted, wanted.real, supervisor)
    listener = wanted.listener_descriptor
    supervisor.start_module("forward", "devcluster.controlplane.forward", str(listener), pass_fds=(listener,))
    os.close(listener)  # or the host's port would stay open when the forwarder has ended
    supervisor.wait_until("the controllers make service accounts", api.has_service_account)
    reached("controllers")
    nodes = len(wanted.node_names) + len(wanted.real_node_names) + wanted.stubs
    supervisor.wait_until("all nodes are Ready", lambda: api.ready_nodes() == nodes)
    reached("nodes")
    return seconds


def _start_real_nodes(
    state: Path, wanted: settings.ClusterSettings, real: settings.RealNodes, supervisor: Supervisor
) -> None:
    """Start each in a new mount and network namespace, with the programs of the unpacked packages."""
    env = packages.environment(Path(real.programs))
    cgroups.create(real.cgroup)
    server = image_registry.read_only_command(
        state, Path(real.registry), f"{settings.GATEWAY}:{settings.REGISTRY_PORT}"
    )
    supervisor.start("registry", *server, env=env)
    for number, name in enumerate(wanted.real_node_names, start=len(wanted.node_names) + 1):
        module = (sys.executable, "-m", "devcluster.realnode", str(state), name, str(number))
        supervisor.start(name, "unshare", "--mount", "--net", *module, env=env)


def main(state: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # PID 1 ignores what it does not handle
    wanted = settings.load(state / SETTINGS_FILE)
    supervisor = Supervisor(state)
    seconds = _start_cluster(state, wanted, supervisor)
    supervisor.may_end = frozenset((*wanted.node_names, *wanted.real_node_names, STUBS))
    unfinished = state / f"{READY_FILE}.part"
    unfinished.write_text(json.dumps(seconds))
    unfinished.rename(state / READY_FILE)
    while True:
        supervisor.reap(block=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
