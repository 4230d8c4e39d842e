"""No gang outlives the test that started it."""

from collections.abc import Iterator

import pytest

from tests.support.gangs.gang import AgentGang


@pytest.fixture(autouse=True)
def _gangs_end() -> Iterator[None]:
    """Those of a module's fixture have ended by themselves when its first test runs."""
    yield
    while AgentGang.started:
        AgentGang.started.pop().end()
