"""A cluster of real nodes for the session, everything installed; the machine is as before at the end."""

from collections.abc import Iterator

import pytest

from devcluster import real_node_setup
from devcluster.imaging import build_images
from devcluster.imaging.build_images import Choice
from devcluster.programs.gobuild import Say
from tests.support.clusters import real_nodes
from tests.support.clusters.cluster import SessionCluster, say_aloud
from tests.support.clusters.traces import traces


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.path.name == "test_audit.py")  # it judges what all the others did


@pytest.fixture(scope="session", autouse=True)
def machine() -> Iterator[None]:
    """One that can have real nodes, has no leftovers, and is left as it was."""
    if reasons := real_node_setup.reasons_why_not():
        pytest.skip("; ".join(reasons))
    if problems := [
        *real_node_setup.shortages(),
        *(f"left by an interrupted run: {left}" for left in real_node_setup.leftovers()),
    ]:
        pytest.exit(f"{'; '.join(problems)}. Leftovers are removed by: make e2e-clean", returncode=2)
    before = traces()
    yield
    after = traces()
    assert after == before, "the machine is not as it was: make e2e-clean"


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Say:
    return say_aloud(request.config)


@pytest.fixture(scope="session")
def images(machine: None, say: Say) -> None:
    """Of the code as it is now."""
    build_images.images(Choice(), say)


@pytest.fixture(scope="session")
def cluster(images: None, say: Say, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    with real_nodes.fresh(tmp_path_factory.mktemp("e2e"), say) as fresh:
        yield fresh


@pytest.fixture(scope="session")
def installed(cluster: SessionCluster) -> SessionCluster:
    """The cluster with the operator in its pod."""
    real_nodes.install(cluster)
    return cluster
