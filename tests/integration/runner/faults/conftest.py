import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "show every fault, then 1,000 random ones: write docs/development/faults.md and their figures"
    parser.addoption("--update-faults", action="store_true", help=words)


@pytest.fixture
def updates_faults(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--update-faults", default=False):
        pytest.skip("only with --update-faults, as make bench-faults runs it")
