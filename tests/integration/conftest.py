"""An operator with exactly the rights of manifests/rbac, under manifests/policies, for the tests that ask for one."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.cluster import SessionCluster
from tests.support.operators import operator as support
from tests.support.operators.operator import OperatorProcess, StartOperator


@pytest.fixture(scope="session")
def installed(cluster: SessionCluster) -> Path:
    """CRDs, rights and policies; gives the kubeconfig of the operator's ServiceAccount."""
    return support.install(cluster)


@pytest.fixture(scope="session")
def start_operator(cluster: SessionCluster, installed: Path, tmp_path_factory: pytest.TempPathFactory) -> StartOperator:
    """A context manager that starts an operator with these flags, waits until it is ready, and ends it."""
    directory = tmp_path_factory.mktemp("operators")

    def start(
        *flags: str, log: str = "operator.log", kubeconfig: Path = installed
    ) -> contextlib.AbstractContextManager[OperatorProcess]:
        return support.running(cluster, kubeconfig, directory / log, *flags)

    return start


@pytest.fixture(scope="module")
def operator(start_operator: StartOperator) -> Iterator[OperatorProcess]:
    """Shared by the tests of a module that do not harm it."""
    with start_operator("--fixed-nodes", "--image-pull-timeout-seconds=3", "--allow=service-account:absent") as process:
        yield process
