"""How tests read objects: retries requested by the API server succeed, unless they continue."""

import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.clusters import proxy
from tests.support.clusters.proxy import KubectlProxy
from tests.support.fakes import canned
from tests.support.fakes.canned import Answer

PATH = "/api/v1/nodes"
BUSY = (429, {"message": "storage is (re)initializing", "details": {"retryAfterSeconds": 2}})
FOR_LONG = (429, {"details": {"retryAfterSeconds": 3600}})
UNDER_LOAD = (429, b"Too many requests, please try again later.")
FINE: Answer = (200, {"items": []})


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def ask(method: str, *answers: Answer) -> tuple[Any, int]:
    """What came of it, and how often the server was asked."""
    with canned.serving() as server:
        server.answers = list(answers)
        return KubectlProxy(urlsplit(server.url).port or 0).request(method, PATH), len(server.requests)


@pytest.mark.parametrize(
    ("answer", "pause"), [(BUSY, 2), (FOR_LONG, proxy.LONGEST_PAUSE_SECONDS), (UNDER_LOAD, 1)], ids=str
)
def test_who_is_asked_to_come_back_does(answer: Answer, pause: float, slept: list[float]) -> None:
    assert ask("GET", answer, answer, FINE) == (FINE, 3)
    assert slept == [pause, pause]


def test_a_server_that_stays_busy_is_not_asked_for_ever(slept: list[float]) -> None:
    assert ask("GET", *[BUSY] * 100) == (BUSY, proxy.TIMES)
    assert len(slept) == proxy.TIMES - 1


def test_what_writes_is_sent_once(slept: list[float]) -> None:
    """A refused eviction is such an answer."""
    assert ask("POST", BUSY) == (BUSY, 1)
    assert slept == []
