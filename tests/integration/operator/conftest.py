"""An operator with exactly the rights of manifests/rbac."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.operator import OperatorProcess, StartOperator, is_ready

MANIFESTS = Path(__file__).parents[3] / "manifests"
NAMESPACE = "disttest-system"
READY_SECONDS = 40


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Path:
    """CRDs and rights; gives the kubeconfig of the operator's ServiceAccount."""
    if not cluster.get("namespace", NAMESPACE):
        cluster.kubectl("create", "namespace", NAMESPACE)
    for part in ("crd", "rbac"):
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / part))
    wait = ("wait", "--for=condition=Established", "--timeout=30s", "crd")
    cluster.kubectl(*wait, "disttests.disttest.dev", "disttestseries.disttest.dev")
    return cluster.kubeconfig_for(NAMESPACE, "disttest-operator")


@pytest.fixture(scope="session")
def start_operator(cluster: Cluster, installed: Path, tmp_path_factory: pytest.TempPathFactory) -> StartOperator:
    """A context manager that starts an operator with these flags, waits until it is ready, and ends it."""
    directory = tmp_path_factory.mktemp("operators")

    @contextlib.contextmanager
    def start(*flags: str, log: str = "operator.log", kubeconfig: Path = installed) -> Iterator[OperatorProcess]:
        operator = OperatorProcess(kubeconfig, directory / log, flags)
        try:
            cluster.wait_until("operator is ready", lambda: is_ready(operator), timeout_seconds=READY_SECONDS)
            yield operator
        finally:
            if operator.process.poll() is None:
                operator.stop()

    return start


@pytest.fixture(scope="module")
def operator(start_operator: StartOperator) -> Iterator[OperatorProcess]:
    """Shared by the tests of a module that do not harm it."""
    with start_operator("--fixed-nodes", "--image-patience-seconds=3") as process:
        yield process
