"""Two versions in one cluster, one after the other, installed as an administrator does it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support import patience
from tests.support.clusters.api import MANIFESTS
from tests.support.clusters.cluster import Manifest, SessionCluster
from tests.support.operators.operator import NAMESPACE, samples
from tests.support.operators.previous import Previous
from tools.demo import demo

DEPLOYMENT = "deployment/disttest-operator"
SELECTOR = "app.kubernetes.io/name=disttest-operator"
LEASE = "disttest-operator"
ROLLOUT_SECONDS = 60
TAKE_OVER_SECONDS = 20  # 15 s of Lease where the one before was killed
OURS, BEFORE = "dev", "previous"  # tags of images


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that knows the images of both versions."""

    cluster: SessionCluster
    folder: Path
    before: Previous

    def apply(self, *parts: str, version: str = OURS, tag: str = "") -> None:
        """`kubectl apply -k` of parts of a version's manifests, with images of that version unless another is named."""
        manifests = MANIFESTS if version == OURS else self.before.manifests
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(manifests / part, self.folder) for part in parts],
            "images": [{"name": "disttest-operator", "newTag": tag or version}],
            "patches": [{"target": {"kind": "Deployment"}, "patch": json.dumps([self._runner_image(tag or version)])}],
        }
        (self.folder / "kustomization.yaml").write_text(json.dumps(overlay))
        self.cluster.kubectl("apply", "-k", str(self.folder))

    @staticmethod
    def _runner_image(tag: str) -> Manifest:
        path = "/spec/template/spec/containers/0/args/0"
        return {"op": "replace", "path": path, "value": f"--runner-image=disttest-runner:{tag}"}

    def roll_back(self) -> None:
        """Nothing but the Deployment: who removes a CRD removes all runs."""
        self.cluster.kubectl("-n", NAMESPACE, "rollout", "undo", DEPLOYMENT)

    def is_led_by(self, tag: str) -> None:
        """Returns when the operator of this version acts and no other is left."""
        limit = f"--timeout={patience.whole(ROLLOUT_SECONDS)}s"
        said = self.cluster.kubectl("-n", NAMESPACE, "rollout", "status", DEPLOYMENT, limit, check=False)
        assert "successfully rolled out" in said, f"{said}\n{self._logs()}"
        image = f"disttest-operator:{tag}"

        def probe() -> bool:
            pods = self.operators()
            images = [pod["spec"]["containers"][0]["image"] for pod in pods]
            return images == [image] and self._holder().startswith(pods[0]["metadata"]["name"])

        self.cluster.wait_until(f"{image} alone is there and active", probe, TAKE_OVER_SECONDS)

    def _logs(self) -> str:
        return self.cluster.kubectl("-n", NAMESPACE, "logs", "-l", SELECTOR, "--prefix", "--tail=30", check=False)

    def operators(self) -> list[Manifest]:
        return self.cluster.find("pods", NAMESPACE, SELECTOR)

    def _holder(self) -> str:
        lease = self.cluster.get("lease", LEASE, NAMESPACE) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity", ""))

    def kill(self) -> None:
        """The process of the operator that acts, by SIGKILL."""
        [pid] = [pid for name in self._names() for pid in _processes(name)]
        os.kill(pid, signal.SIGKILL)

    def _names(self) -> list[str]:
        names = [pod["metadata"]["name"] for pod in self.operators()]
        return [name for name in names if self._holder().startswith(name)]

    def metrics(self) -> dict[str, float]:
        """As a Prometheus in the cluster reads them."""
        assert self.cluster.dev is not None
        [pod] = self.operators()
        url = f"https://{pod['status']['podIP']}:8443/metrics"
        command = self.cluster.dev.command_inside([sys.executable, "-c", demo.SCRAPE, url])
        token = self.cluster.kubectl("-n", NAMESPACE, "create", "token", demo.READER).strip()
        done = subprocess.run(
            command, env={**os.environ, "TOKEN": token}, text=True, capture_output=True, timeout=30, check=False
        )
        assert done.returncode == 0, f"{done.stderr[-1000:]}\n{self._logs()}"
        return samples(done.stdout)

    def let_scrape(self) -> None:
        self.cluster.kubectl("-n", NAMESPACE, "create", "serviceaccount", demo.READER)
        bound = (f"--clusterrole={demo.READER_ROLE}", f"--serviceaccount={NAMESPACE}:{demo.READER}")
        self.cluster.kubectl("create", "clusterrolebinding", demo.READER, *bound)

    def log(self) -> str:
        """Of the operator that acts."""
        [name] = self._names()
        return self.cluster.kubectl("-n", NAMESPACE, "logs", name)


def _processes(pod: str) -> list[int]:
    """Operators of this pod, by their numbers on the host."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            is_operator = b"\0disttest_operator\0" in (place / "cmdline").read_bytes()
            if is_operator and f"POD_NAME={pod}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found
