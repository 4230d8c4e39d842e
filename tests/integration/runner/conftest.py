"""No gang outlives the test that started it."""

from collections.abc import Iterator

import pytest

from tests.support.gangs.gang import AgentGang


@pytest.fixture(autouse=True)
def _gangs_end() -> Iterator[None]:
    """Gangs of a module's fixture have already ended when its first test runs."""
    yield
    while AgentGang.started:
        AgentGang.started.pop().end()
