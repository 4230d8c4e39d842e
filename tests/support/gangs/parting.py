"""Hooks for a conftest.py: a rank whose case has failed lets those know who wait for it."""

import os
import socket
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Its connections are cut, as if it had gone: the others notice at once, and not only after a grace period."""
    result = yield
    if item.nodeid in _failed:
        cut_connections()
    return result


def cut_connections() -> None:
    """Threads of gloo close theirs meanwhile: what is looked at is a duplicate."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            duplicate = os.dup(int(entry.name))
        except OSError:  # closed meanwhile, or the listing itself
            continue
        if not stat.S_ISSOCK(os.fstat(duplicate).st_mode):
            os.close(duplicate)
            continue
        with socket.socket(fileno=duplicate) as connection:
            is_inet = connection.family in (socket.AF_INET, socket.AF_INET6)
            if is_inet and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the peer has closed the connection
                    continue
