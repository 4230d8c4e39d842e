"""Starting, finding and ending a cluster, from the host. A cluster is known by its state directory."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devcluster.controlplane import kubeconfig
from devcluster.controlplane.supervisor import AGAIN, AUDIT_LOG, READY_FILE, READY_SECONDS, SETTINGS_FILE
from devcluster.machine import cache, processes, settings
from devcluster.machine.settings import API_SERVICE, GATEWAY, DevClusterError
from devcluster.realnode import cgroups

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = "365"
SERVER_NAMES = (
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{GATEWAY},IP:{API_SERVICE}"
)
# Python 3.13 verifies strictly: an authority must have keyUsage, every other certificate authorityKeyIdentifier.
IDENTIFIERS = ("subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid")
AUTHORITY = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
LEAF = (
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=serverAuth,clientAuth",
    f"subjectAltName={SERVER_NAMES}",
)
LEAVES = {
    "apiserver": "/CN=kube-apiserver",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",  # the API server, calling nodes for logs
    "node": "/CN=node",
}


def create_certificates(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    # The system's configuration would add extensions such as CA:TRUE for everything self-signed.
    (directory / "openssl.conf").write_text("[req]\ndistinguished_name = name\n[name]\n")
    _certificate(directory, "ca", "/CN=devcluster", AUTHORITY)
    for name, subject in LEAVES.items():
        _certificate(directory, name, subject, LEAF, signed_by="ca")
    _openssl(directory, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "serviceaccounts.key")
    _openssl(directory, "ec", "-in", "serviceaccounts.key", "-pubout", "-out", "serviceaccounts.pub")


def _certificate(directory: Path, name: str, subject: str, extensions: tuple[str, ...], signed_by: str = "") -> None:
    signer = ["-CA", f"{signed_by}.crt", "-CAkey", f"{signed_by}.key"] if signed_by else []
    added = [option for extension in (*extensions, *IDENTIFIERS) for option in ("-addext", extension)]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", DAYS, "-subj", subject]
    _openssl(directory, "req", "-x509", "-config", "openssl.conf", *KEY, *signer, *files, *added)


def _openssl(directory: Path, *arguments: str) -> None:
    title = f"openssl {arguments[0]}, which needs OpenSSL 3 or newer,"
    processes.output("openssl", *arguments, title=title, directory=directory)


def write_audit_policy(file: Path, *rules: Mapping[str, Any]) -> str:
    """Make the API server record requests by the first of these rules that matches; return the file's path.

    Watches and logs that are followed are recorded when they start: their end may come too late.
    """
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": True,
        "rules": [*rules, {"level": "None"}],
    }
    file.write_text(json.dumps(policy))
    return str(file)


PID_FILE = "cluster.pid"
LOG_FILE = "cluster.log"
POLL_SECONDS = 0.02
# The owner's death reaches unshare as a SIGKILL, and unshare's death its child, which is PID 1: see --kill-child.
DIE_WITH_OWNER = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True, slots=True)
class DevCluster:
    state: Path

    @property
    def kubeconfig(self) -> Path:
        return self.state / kubeconfig.HOST

    def is_running(self) -> bool:
        return processes.recall(self.state / PID_FILE) is not None

    def first_process(self) -> int:
        """Return the host's process id of the cluster's PID 1."""
        unshare = processes.recall(self.state / PID_FILE)
        below = processes.children(unshare) if unshare is not None else []
        if not below:
            raise DevClusterError(f"no cluster runs in {self.state}; start one with: python -m devcluster up")
        return below[0]

    def start(self, wanted: settings.ClusterSettings, *, owned: bool, rootless: bool = False) -> dict[str, float]:
        """Start it and wait until its nodes are Ready; return the seconds that each step took.

        An owned cluster dies with the calling thread, even if that is killed. Whatever interrupts the start ends it.
        """
        processes.check_programs()
        names = (*wanted.node_names, *wanted.real_node_names)
        if len(names) + wanted.stubs < 1 or len(names) > settings.MOST_NODES:
            raise DevClusterError(f"{len(names)} nodes: between 1 and {settings.MOST_NODES} are possible")
        if wanted.real and "kubelet" not in wanted.programs:
            raise DevClusterError("real nodes need a kubelet, which KUBEBUILDER_ASSETS lacks: unset it to build one")
        unshare = ("unshare", *processes.unshare_options(rootless=rootless))
        with cache.hold_lock(self._lock, f"is starting the cluster {self.state.name}", print):
            if self.is_running():
                raise DevClusterError(f"a cluster already runs in {self.state}; end it with: python -m devcluster down")
            self._clear()
            shutil.rmtree(self.state, ignore_errors=True)
            self.state.mkdir(mode=0o700)
            create_certificates(self.state / "pki")
            return self._launch([*(DIE_WITH_OWNER if owned else ()), *unshare], wanted)

    def _launch(self, prefix: Sequence[str], wanted: settings.ClusterSettings) -> dict[str, float]:
        with socket.create_server(("127.0.0.1", 0)) as listener, (self.state / LOG_FILE).open("wb") as log:
            names = (*wanted.node_names, *wanted.real_node_names)
            kubeconfig.write_all(self.state, names, listener.getsockname()[1])
            replace(wanted, listener_descriptor=listener.fileno()).save(self.state / SETTINGS_FILE)
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "devcluster.controlplane.supervisor", str(self.state)],
                env={**os.environ, "PYTHONPATH": str(settings.REPOSITORY)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for us; we end the cluster
            )
        try:
            processes.remember(process.pid, self.state / PID_FILE)
            return self._wait_until_ready(process)
        except BaseException:  # also Ctrl-C: what was started here must not stay
            self.stop()
            raise
        finally:
            process.returncode = 0  # it may outlive us: Popen must not complain about that

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> dict[str, float]:
        ready = self.state / READY_FILE
        deadline = time.monotonic() + READY_SECONDS + 10  # PID 1 gives up first and says why
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                output = (self.state / LOG_FILE).read_text(errors="replace").strip()
                raise DevClusterError(f"the cluster did not start; its logs are in {self.state / 'logs'}\n{output}")
            time.sleep(POLL_SECONDS)
        seconds: dict[str, float] = json.loads(ready.read_text())
        return seconds

    def stop(self) -> bool:
        """End it with all its processes; False if it was not running."""
        unshare = processes.recall(self.state / PID_FILE)
        if unshare is None:
            self._clear()  # its owner may have been killed
            return False
        if not processes.kill_namespace(unshare, self.state / PID_FILE):
            raise DevClusterError(
                f"process {unshare} of {self.state} did not end after SIGKILL; see its state in /proc"
            )
        self._clear()
        return True

    def _clear(self) -> None:
        """Remove what real nodes leave outside of their namespaces: one cgroup, and large directories."""
        settings_file = self.state / SETTINGS_FILE
        if settings_file.exists() and (real := settings.load(settings_file).real):
            cgroups.remove(real.cgroup)
            shutil.rmtree(self.state / "nodes", ignore_errors=True)

    def signal(self, program: str, number: int) -> None:
        """Send a signal to a program of the cluster, by the name of its log."""
        pid = (self.state / f"{program}.pid").read_text()
        inside = ("nsenter", "--target", str(self.first_process()), "--pid", "--mount")
        processes.output(*inside, "kill", f"-{number}", pid, title=f"signal {number} for {program}")

    def restart(self, program: str) -> None:
        """Kill a program that the supervisor then restarts, instead of ending the cluster."""
        (self.state / f"{program}{AGAIN}").touch()
        self.signal(program, signal.SIGKILL)

    def audit_logs(self) -> list[Path]:
        """Oldest first: the API server renames a full log by its time and starts another."""
        newest = self.state / AUDIT_LOG
        return [*sorted(newest.parent.glob(f"{newest.stem}-*{newest.suffix}")), newest]

    def audit_events(self) -> Iterator[dict[str, Any]]:
        for file in self.audit_logs():
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # the last one may be half written
                    yield json.loads(line)

    def remove(self) -> None:
        """End it and remove its files and its lock, so no other process may start a cluster of this name meanwhile."""
        self.stop()
        shutil.rmtree(self.state, ignore_errors=True)
        self._lock.unlink(missing_ok=True)

    @property
    def _lock(self) -> Path:
        return self.state.with_name(f".{self.state.name}.lock")

    def command_inside(self, command: Sequence[str]) -> list[str]:
        """Return a command line that runs a program in the cluster's network, where pod addresses are reachable.

        Not in its PID namespace: nsenter would have to fork for that, and would pass no signals on.
        """
        inside = self.first_process()
        user = []
        if Path(f"/proc/{inside}/ns/user").readlink() != Path("/proc/self/ns/user").readlink():
            user = ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(inside), "--net", *user, "--", *command]
