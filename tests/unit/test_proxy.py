"""How tests read objects: an API server that asks them to come back is no failure, and one that goes on so is."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support import canned, proxy
from tests.support.canned import Server
from tests.support.proxy import Proxy

BUSY = (429, {"message": "storage is (re)initializing", "details": {"retryAfterSeconds": 3}})


@pytest.fixture
def server() -> Iterator[Server]:
    with canned.serving() as running:
        yield running


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def asked(server: Server, method: str) -> tuple[int, object]:
    return Proxy(urlsplit(server.url).port or 0).request(method, "/api/v1/nodes")


def test_who_is_asked_to_come_back_does_when_he_was_told(server: Server, slept: list[float]) -> None:
    server.answers = [BUSY, BUSY, (200, {"items": []})]
    assert asked(server, "GET") == (200, {"items": []})
    assert slept == [3, 3]


def test_a_server_that_stays_busy_is_not_asked_for_ever(server: Server, slept: list[float]) -> None:
    server.answers = [BUSY] * 100
    assert asked(server, "GET") == BUSY
    assert len(server.requests) == len(slept) + 1 == proxy.TIMES


def test_what_writes_is_sent_once(server: Server, slept: list[float]) -> None:
    """A refused eviction is such an answer."""
    server.answers = [BUSY]
    assert asked(server, "POST") == BUSY
    assert slept == []
