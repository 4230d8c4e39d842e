"""The fixtures of the runner, as a pytest plugin: `gang`, `process_group` and `measure`."""

import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import pytest

from disttest_contract import limits
from disttest_runner.process_group.gang import Gang
from disttest_runner.results.measurements import Sample

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from disttest_runner.process_group.generation import Generation

GENERATION = pytest.StashKey["Generation"]()
GANG = pytest.StashKey[Gang]()  # for suites that parametrize cases by the gang
NO_GROUP = "Default process group has not been initialized"  # torch's message
NEEDS_GROUP = "The test uses the default process group. Add the fixture `process_group` to its arguments."
MEASURED = pytest.StashKey[list[Sample]]()  # of a case


class Fixtures:
    """Registers this module as a plugin. Pytest 10 refuses session fixtures that are methods."""

    def __init__(self, generation: "Generation") -> None:
        self._generation = generation

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[GENERATION] = self._generation
        config.stash[GANG] = self._generation.gang
        config.pluginmanager.register(sys.modules[__name__], "disttest")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        try:
            return (yield)
        except Exception as error:
            if NO_GROUP in str(error) and "process_group" not in getattr(item, "fixturenames", ()):
                error.add_note(NEEDS_GROUP)
            raise


@pytest.fixture(scope="session")
def gang(pytestconfig: pytest.Config) -> Gang:
    """The place of a rank in the gang."""
    return pytestconfig.stash[GANG]


@pytest.fixture
def process_group(pytestconfig: pytest.Config) -> "ProcessGroup":
    """The default process group over all ranks."""
    return pytestconfig.stash[GENERATION].process_group()


@pytest.fixture
def measure(request: pytest.FixtureRequest) -> Callable[[Sample], None]:
    """Records what this rank has measured; the report shows it merged over all ranks."""
    samples: list[Sample] = []
    request.node.stash[MEASURED] = samples

    def measure(sample: Sample) -> None:
        if len(samples) >= limits.MEASUREMENTS:
            raise ValueError(f"a case can record at most {limits.MEASUREMENTS} measurements")
        samples.append(Sample.from_wire(sample.to_wire()))

    return measure
