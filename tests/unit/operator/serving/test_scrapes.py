"""What a scraper reads, over HTTP."""

import asyncio
from collections import Counter

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from disttest_operator.serving import servers
from disttest_operator.serving.access import AccessDecision, ScrapeStatus

# Status, and headers that come with it.
ANSWERS = [
    (ScrapeStatus.ALLOWED, {}),
    (ScrapeStatus.UNKNOWN, {"WWW-Authenticate": "Bearer"}),
    (ScrapeStatus.FORBIDDEN, {}),
    (ScrapeStatus.TOO_MANY, {"Retry-After": "1"}),
    (ScrapeStatus.UNASKED, {}),
]


async def get(app: web.Application, path: str, **headers: str) -> tuple[ClientResponse, str]:
    async with TestClient(TestServer(app)) as client, client.get(path, headers=headers) as response:
        return response, await response.text()


def test_every_answer_has_a_row() -> None:
    assert [status for status, _ in ANSWERS] == list(ScrapeStatus)


@pytest.mark.parametrize(("status", "expected"), ANSWERS, ids=lambda value: getattr(value, "name", ""))
def test_a_scraper_gets_its_status_with_a_sentence_and_is_counted(
    status: ScrapeStatus, expected: dict[str, str]
) -> None:
    counted: Counter[int] = Counter()
    rendered: list[str] = []

    async def authorize(header: str) -> AccessDecision:
        assert header == "Bearer t"
        return AccessDecision(
            status=status, sentence="" if status is ScrapeStatus.ALLOWED else "what to do", cause="for the log"
        )

    def render(accept: str) -> tuple[bytes, str]:
        rendered.append(accept)
        return b"disttest_leader 1\n", "text/plain; version=0.0.4; charset=utf-8"

    app = servers.metrics_app(render, authorize=authorize, count=lambda code: counted.update([code]))
    response, text = asyncio.run(get(app, "/metrics", Authorization="Bearer t", Accept="text/plain"))
    assert response.status == status
    assert {name: response.headers[name] for name in expected} == expected
    assert ("WWW-Authenticate" in response.headers) is (status == 401)
    assert text == ("disttest_leader 1\n" if status is ScrapeStatus.ALLOWED else "what to do\n")
    assert rendered == (["text/plain"] if status is ScrapeStatus.ALLOWED else [])
    assert counted == {status.value: 1}


def test_without_a_header_the_question_is_about_none() -> None:
    asked = []

    async def authorize(header: str) -> AccessDecision:
        asked.append(header)
        return AccessDecision(status=ScrapeStatus.UNKNOWN, sentence="no")

    asyncio.run(get(servers.metrics_app(lambda _: (b"", ""), authorize=authorize, count=lambda _: None), "/metrics"))
    assert asked == [""]


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503)])
def test_health_is_served_without_authentication(path: str, status: int) -> None:
    async def scenario() -> int:
        return (await get(servers.health_app(list, lambda: False), path))[0].status

    assert asyncio.run(scenario()) == status
