"""The demo on the cluster of kubectl's current context, by explicit choice: `make demo CLUSTER=current`.

It installs only where nothing of DistTest is yet, and removes at the end what it installed.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.machine.settings import DevClusterError
from disttest_runner.compat import override
from tools.demo.session import SYSTEM, DemoError, Session, complain, say, step

OLDEST = (1, 31)
SMOKE = "manifests/samples/cpu-smoke.yaml"
NAMESPACE = "disttest-demo"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
RUNNER_IMAGE = "--runner-image="
REMOVE_SECONDS = 180

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Images that the cluster can pull or that its nodes have."""

    operator: str
    runner: str


class CurrentCluster(Session):
    def __init__(self, program: Sequence[str], results: Path, images: Images) -> None:
        super().__init__(program, dict(os.environ), results, namespace=NAMESPACE)
        self.images = images
        self.file = results / "installed.yaml"

    def render(self, overlay: Path) -> None:
        """Write the manifests into a file, which is installed, compared with the cluster, and removed."""
        documents = list(yaml.safe_load_all(self.kubectl("kustomize", str(overlay))))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
        self.file.write_text(yaml.safe_dump_all([*with_images(documents, self.images), namespace]))

    def where(self) -> str:
        context = self.kubectl("config", "current-context").strip()
        server = self.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
        return f"context {context}, {server}"

    def check(self) -> None:
        """Raise a DemoError unless the cluster is new enough and has no objects that the demo would remove."""
        version = json.loads(self.kubectl("version", "-o", "json"))["serverVersion"]
        if (int(version["major"]), int(version["minor"].rstrip("+"))) < OLDEST:
            raise DemoError(f"the cluster is {version['gitVersion']}; Kubernetes 1.31 or newer is required")
        if there := self.kubectl("get", "-f", str(self.file), "--ignore-not-found", "-o", "name").split():
            raise DemoError(
                f"DistTest is installed there already ({', '.join(there[:3])}{', …' if there[3:] else ''}), "
                f"and the demo would remove it at its end. To use it, run: disttest apply -f {SMOKE} --wait"
            )

    @override
    def install(self) -> None:
        self.kubectl("apply", "-f", str(self.file))
        try:
            self.wait_for_operator()
        except DevClusterError as error:
            raise DemoError(
                f"{error}\nThe images are {self.images.operator} and {self.images.runner}. If nodes cannot pull them, "
                "load them (kind load docker-image) or name others: OPERATOR_IMAGE=… RUNNER_IMAGE=…"
            ) from error

    def remove(self) -> None:
        """Delete the runs first, while the operator can end them, then everything in the file."""
        done = step(f"removing what was installed: kubectl delete -f {self.file}")
        try:
            limit = f"--timeout={REMOVE_SECONDS}s"
            runs = ("delete", "disttests.disttest.dev", "--all", "-n", NAMESPACE, "--ignore-not-found", limit)
            with contextlib.suppress(DevClusterError):  # the kind may not be there yet
                self.kubectl(*runs, seconds=REMOVE_SECONDS + 30)
            everything = ("delete", "-f", str(self.file), "--ignore-not-found", limit)
            self.kubectl(*everything, seconds=REMOVE_SECONDS + 30)
        except (DevClusterError, KeyboardInterrupt) as error:
            complain(f"Not everything was removed. Run: kubectl delete --ignore-not-found -f {self.file}")
            raise DemoError(f"removing: {error}") from error
        done()

    @override
    def hints(self) -> list[str]:
        path, use = super().hints()
        return [path, f"{use}      (in namespace {NAMESPACE}: -n {NAMESPACE})", f"  kubectl -n {SYSTEM} get pods"]


def with_images(documents: Sequence[Manifest], images: Images) -> list[Manifest]:
    """Change the operator's Deployment to these images."""
    for document in documents:
        if document["kind"] == "Deployment":
            [container] = document["spec"]["template"]["spec"]["containers"]
            others = [argument for argument in container["args"] if not argument.startswith(RUNNER_IMAGE)]
            container["image"] = images.operator
            container["args"] = [RUNNER_IMAGE + images.runner, *others]
    return list(documents)


@contextlib.contextmanager
def borrowed(program: Sequence[str], results: Path, images: Images, overlay: Path) -> Iterator[CurrentCluster]:
    """The current cluster; everything that was installed is removed at the end."""
    session = CurrentCluster(program, results, images)
    say(f"== using the current cluster: {session.where()}")
    session.render(overlay)
    session.check()
    try:
        yield session
    finally:
        session.remove()
