"""Kueue: built from its Go module, run in a cluster's network, its webhooks called by address.

It is the real manager. Of its manifests the deployment, its rights and the aggregated API are left out: a process has
the administrator's permissions, and `kubectl get workloads` replaces the visibility API.
"""

import base64
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.controlplane import kubeconfig
from devcluster.machine import cache, settings
from devcluster.machine.settings import DevClusterError
from devcluster.programs import gobuild
from tests.support import patience
from tests.support.clusters.cluster import Manifest, SessionCluster

VERSION = "v0.15.0"
MODULE = "sigs.k8s.io/kueue"
WEBHOOK_PORT = 9443
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
INSTALLED = frozenset({"Namespace", "CustomResourceDefinition", *WEBHOOKS})
READY_SECONDS = 120
STOP_SECONDS = 20
# The certificate of the metrics has a fixed path below /etc, so Kueue gets a separate /etc.
PRIVATE_ETC = 'mount --bind "$0" /etc && exec setpriv --pdeathsig KILL -- "$@"'
CERTIFICATES = "kueue/metrics/certs"

PROGRAM = gobuild.GoProgram(
    title=f"Kueue {VERSION}",
    source=Path(__file__).parent / "kueue_module",
    inputs=("go.mod", "go.sum"),
    linker="-s -w",
    package=f"{MODULE}/cmd/kueue",
    home=cache.root() / "kueue",
    name="manager",
    minutes=3,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    binary: Path
    module: Path
    """Its source, with the CRDs and webhooks as kustomize files."""


def build(say: gobuild.Say) -> Built:
    """Skips the test where there is no Go, or no way to Kueue's modules; a failing compiler fails it."""
    try:
        gobuild.check(PROGRAM)
    except DevClusterError as error:
        pytest.skip(str(error))
    fetched = PROGRAM.go("mod", "download", "-json", MODULE)
    if fetched.returncode:
        pytest.skip(f"{MODULE} {VERSION} is not available: {(fetched.stderr or fetched.stdout).strip()[-500:]}")
    module = Path(json.loads(fetched.stdout)["Dir"])
    return Built(binary=gobuild.build(PROGRAM, say), module=module)


@contextlib.contextmanager
def running(cluster: SessionCluster, built: Built) -> Iterator["Kueue"]:
    """Installed and answering. It ends with this process, however that ends."""
    kueue = Kueue(cluster, built)
    cluster.apply_server_side(manifests(cluster, built.module))
    cluster.kubectl("wait", "--for=condition=Established", f"--timeout={patience.whole(60)}s", "crd", "--all")
    kueue.start()
    try:
        kueue.wait_until_ready()
        yield kueue
    finally:
        kueue.stop()


class Kueue:
    def __init__(self, cluster: SessionCluster, built: Built) -> None:
        if cluster.dev is None:
            pytest.skip("the API server must call Kueue's webhooks: this requires a local cluster")
        self.cluster, self.dev, self.built = cluster, cluster.dev, built
        self.log = cluster.dev.state / "logs" / "kueue.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        etc = self.dev.state / "kueue"
        certificates = etc / CERTIFICATES
        certificates.mkdir(parents=True, exist_ok=True)
        for end in ("crt", "key"):
            (certificates / f"tls.{end}").write_bytes((self.dev.state / "pki" / f"node.{end}").read_bytes())
        config = etc / "config.json"
        config.write_text(json.dumps(configuration(certificates)))
        program = (str(self.built.binary), f"--config={config}", "--feature-gates=VisibilityOnDemand=false")
        account = f"--kubeconfig={self.dev.state / kubeconfig.INSIDE}"
        command = ("unshare", "--mount", "sh", "-c", PRIVATE_ETC, str(etc), *program, account)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.dev.command_inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until_ready(self) -> None:
        """Its own objects are refused until its webhooks answer."""
        flavor = made("ResourceFlavor", "ready", {})

        def answers() -> bool:
            if self.process is None or self.process.poll() is not None:
                pytest.fail(f"Kueue ended:\n{self.log.read_text()[-4000:]}")
            said = self.cluster.kubectl("apply", "-f", "-", input=json.dumps(flavor), check=False)
            return "created" in said or "configured" in said or "unchanged" in said

        self.cluster.wait_until(f"Kueue answers (its log: {self.log})", answers, READY_SECONDS)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(patience.stretched(STOP_SECONDS))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def configuration(certificates: Path) -> Manifest:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{settings.GATEWAY}:8081"},
        "metrics": {"bindAddress": f"{settings.GATEWAY}:8443"},
        "webhook": {"port": WEBHOOK_PORT, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
    }


def manifests(cluster: SessionCluster, module: Path) -> list[Manifest]:
    """As a user would install them, with addresses instead of Services, which do not work in a local cluster."""
    if cluster.dev is None:
        return []
    rendered = cluster.kubectl("kustomize", str(module / "config" / "default"))
    kept = [document for document in yaml.safe_load_all(rendered) if document["kind"] in INSTALLED]
    authority = base64.b64encode((cluster.dev.state / "pki" / "ca.crt").read_bytes()).decode()
    for document in kept:
        for caller in _callers(document):
            path = caller["clientConfig"]["service"]["path"]
            url = f"https://{settings.GATEWAY}:{WEBHOOK_PORT}{path}"
            caller["clientConfig"] = {"url": url, "caBundle": authority}
    return kept


def _callers(document: Manifest) -> list[dict[str, Any]]:
    """What in it makes the API server call Kueue."""
    if document["kind"] in WEBHOOKS:
        webhooks: list[dict[str, Any]] = document["webhooks"]
        return webhooks
    conversion = document.get("spec", {}).get("conversion") or {}
    return [conversion["webhook"]] if conversion.get("strategy") == "Webhook" else []


def made(kind: str, name: str, spec: Manifest, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def queue(namespace: str, name: str, *, cpu: int, node_labels: dict[str, str] | None = None) -> list[Manifest]:
    """A LocalQueue with its own ClusterQueue, in which workloads with higher priority preempt others."""
    flavor = f"{namespace}-{name}"
    quota = {"name": "cpu", "nominalQuota": cpu}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": [quota]}]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return [
        made("ResourceFlavor", flavor, {"nodeLabels": node_labels} if node_labels else {}),
        made("ClusterQueue", flavor, spec),
        made("LocalQueue", name, {"clusterQueue": flavor}, namespace=namespace),
    ]
