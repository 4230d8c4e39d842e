from collections.abc import Iterator
from pathlib import Path

import pytest

from disttest_cli.kube import client
from disttest_cli.kube.client import KubeClient
from tests.support.fakes.canned import FakeTime, Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


@pytest.fixture
def api(server: Server, tmp_path: Path) -> KubeClient:
    return client.connect({}, kubeconfig=server.kubeconfig(tmp_path))


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()
