"""Fixtures that all layers share; `--update-golden` writes anew what is compared with what code makes."""

import pytest

from tests.support.cluster import cluster, namespace
from tests.support.stub_nodes import stub_nodes

__all__ = ["cluster", "namespace", "stub_nodes"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def updates_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))
