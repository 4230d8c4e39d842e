"""A real Prometheus and promtool on this machine, with deadlines that follow its load."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import patience
from tools.dashboards.prometheus import Prometheus
from tools.demo import local_services


def require(name: str) -> None:
    """Skip the test without prometheus or promtool; fail it where `make setup` could have installed the program."""
    if shutil.which(name):
        return
    if shutil.which("apt-get") is None:
        pytest.skip(f"no {name} on PATH, and no apt-get by which `make setup` could get it: install Prometheus")
    pytest.fail(f"no {name} on PATH: `make setup` puts one into the cache, or install the package prometheus")


def promtool(*arguments: str | Path) -> str:
    require("promtool")
    return local_services.promtool(*arguments)


@contextlib.contextmanager
def running(
    directory: Path, config: Mapping[str, Any], *flags: str, storage: Path | None = None
) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, on `storage` if there is one already."""
    require("prometheus")
    ready_seconds = patience.stretched(local_services.READY_SECONDS)
    with local_services.prometheus(directory, config, *flags, storage=storage, ready_seconds=ready_seconds) as service:
        yield Prometheus(url=service.url)
