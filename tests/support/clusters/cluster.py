"""A fresh cluster for a test session, and what tests ask of it.

`cluster` is shared by all tests of a session, `namespace` is one test's own. A machine that gives no namespaces skips
with the way to get them; everything else that goes wrong, such as a failed build, fails.
"""

import contextlib
import dataclasses
import json
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from devcluster import command_line
from devcluster.controlplane.lifecycle import DevCluster, write_audit_policy
from devcluster.kubectl import Kubectl, KubectlError
from devcluster.machine.settings import ClusterSettings, Image, NoNamespaces
from devcluster.operator_process import RUNNER_IMAGE
from devcluster.programs import kubernetes
from devcluster.programs.gobuild import Say
from disttest_runner.compat import override
from tests.support import patience
from tests.support.clusters import audit, proxy
from tests.support.clusters.proxy import KubectlProxy, UnknownKindError
from tests.support.gangs import foreign_images

Manifest = dict[str, Any]
T = TypeVar("T")

__all__ = ["RUNNER_IMAGE", "KubectlError", "Manifest", "SessionCluster", "cluster", "namespace"]

OPERATOR_IMAGE = "disttest-operator:dev"
POLL_SECONDS = 0.05
NAMESPACES = "/api/v1/namespaces"
GONE_SECONDS = 60


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity
class SessionCluster(Kubectl):
    dev: DevCluster | None = None
    """None if the user chose a cluster that is not ours."""
    proxy: KubectlProxy | None = None
    """Where there is none, kubectl is asked each time."""

    @staticmethod
    @override
    def timeout(seconds: float) -> float:
        return patience.stretched(seconds)

    def apply(self, manifests: Manifest | Sequence[Manifest], namespace: str | None = None) -> str:
        items = [manifests] if isinstance(manifests, dict) else list(manifests)
        where = ["--namespace", namespace] if namespace else []
        return self.kubectl(
            "apply", *where, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        )

    def apply_server_side(self, manifests: Sequence[Manifest]) -> str:
        """For what is too large to be remembered in an annotation."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        return self.kubectl("apply", "--server-side", "-f", "-", input=json.dumps(items))

    def get(self, kind: str, name: str, namespace: str = "default") -> Manifest | None:
        """The object; None if there is none of that name."""
        if self.proxy:
            with contextlib.suppress(UnknownKindError):  # kubectl says it better
                body: Manifest | None = self._found(f"{kind} {name}", self.proxy.get(kind, name, namespace))
                return body
        found = self.kubectl("get", kind, name, "--namespace", namespace, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found.strip() else None

    def find(self, kind: str, namespace: str = "default", selector: str = "") -> list[Manifest]:
        """All of a kind, or of several, with commas between them."""
        if self.proxy:
            with contextlib.suppress(UnknownKindError):
                answers = [(one, self.proxy.find(one, namespace, selector)) for one in kind.split(",")]
                return [item for one, answer in answers for item in self._found(one, answer) or ()]
        chosen = ["--selector", selector] if selector else []
        found = json.loads(self.kubectl("get", kind, "--namespace", namespace, *chosen, "-o", "json"))
        items: list[Manifest] = found["items"]
        return items

    @staticmethod
    def _found(what: str, answer: tuple[int, Any]) -> Any:
        status, body = answer
        if status not in (200, 404):
            raise KubectlError(f"get {what}: {status}: {body}")
        return body if status == 200 else None

    def wait_until(self, description: str, probe: Callable[[], T | None], timeout_seconds: float = 30) -> T:
        """The first value of `probe` that is true; fails with the description and the last value."""
        return patience.wait_until(description, probe, timeout_seconds, poll_seconds=POLL_SECONDS)

    @contextlib.contextmanager
    def tainted(self, node: str, taint: str) -> Iterator[None]:
        """Until the end of the block."""
        self.kubectl("taint", "node", node, taint)
        try:
            yield
        finally:
            self.kubectl("taint", "node", node, f"{taint}-")

    @contextlib.contextmanager
    def namespace(self, labels: dict[str, str] | None = None) -> Iterator[str]:
        """A new namespace, deleted at the end without waiting."""
        name = f"test-{secrets.token_hex(4)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}
        if self.proxy:
            status, answer = self.proxy.request("POST", NAMESPACES, body)
            assert status == 201, answer
        else:
            self.apply(body)
        try:
            # The controllers make it a moment later; until then pods are refused.
            self.wait_until(f"default ServiceAccount in {name}", lambda: self.get("serviceaccount", "default", name))
            yield name
        finally:
            if self.proxy:
                self.proxy.request("DELETE", f"{NAMESPACES}/{name}")
            else:
                self.kubectl("delete", "namespace", name, "--wait=false", check=False)


def running_venv(*names: str) -> tuple[Image, ...]:
    """Images whose programs are those of the interpreter that runs the tests."""
    return tuple(Image(name=name, directory=sys.prefix, env={}) for name in names)


@contextlib.contextmanager
def proxied(cluster: SessionCluster) -> Iterator[SessionCluster]:
    """The same, asked through a proxy until the end of the block."""
    with proxy.running(cluster.command()) as running:
        yield dataclasses.replace(cluster, proxy=running)


@contextlib.contextmanager
def fresh_cluster(
    directory: Path, say: Say, *, nodes: int = 2, rootless: bool = False, more_images: tuple[Image, ...] = ()
) -> Iterator[SessionCluster]:
    """A local cluster that ends with this process."""
    programs = kubernetes.programs(say)
    dev = DevCluster(directory / "state")
    images = (*running_venv(RUNNER_IMAGE, OPERATOR_IMAGE), *foreign_images.make(directory / "images"), *more_images)
    policy = write_audit_policy(directory / "audit-policy.json", *audit.OF_RIGHTS)
    settings = ClusterSettings(programs=programs, nodes=nodes, images=images, audit_policy=policy)
    try:
        dev.start(settings, owned=True, rootless=rootless)
    except NoNamespaces as error:
        pytest.skip(str(error))
    try:
        with proxied(SessionCluster(dev.kubeconfig, directory, programs["kubectl"], dev)) as cluster:
            yield cluster
    finally:
        dev.stop()


def say_aloud(config: pytest.Config) -> Say:
    """Past pytest's capture: a first build takes minutes, and silence looks like a hang."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            print(text, file=sys.stderr, flush=True)

    return say


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    say = say_aloud(request.config)
    directory = tmp_path_factory.mktemp("cluster")
    if foreign := command_line.foreign_kubeconfig():
        with proxied(SessionCluster(foreign, directory, command_line.kubectl(say))) as cluster:
            yield cluster
        return
    with fresh_cluster(directory, say) as fresh:
        yield fresh
        audit.keep(directory / "state")


@pytest.fixture
def namespace(cluster: SessionCluster) -> Iterator[str]:
    """A namespace of one test."""
    with cluster.namespace() as name:
        yield name
