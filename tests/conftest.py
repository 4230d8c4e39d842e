"""Fixtures that all layers share; `--update-golden` updates the golden files."""

import os

import hypothesis
import pytest

from tests.support.clusters.cluster import cluster, namespace
from tests.support.clusters.stub_nodes import stub_nodes

__all__ = ["cluster", "namespace", "stub_nodes"]

# The same inputs every time: a test that fails once in a hundred nights says nothing of the change of that day.
# HYPOTHESIS_PROFILE=hunt searches new ones.
hypothesis.settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=100)
hypothesis.settings.register_profile("hunt", database=None, deadline=None, max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Update the golden files instead of comparing them")


@pytest.fixture
def updates_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden", default=False))
