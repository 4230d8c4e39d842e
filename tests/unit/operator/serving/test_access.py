"""The rate of reviews at the API server is bounded, whatever scrapers do."""

import asyncio
import logging

import pytest

from disttest_operator.serving.access import (
    ALLOWED,
    KEPT_SECONDS,
    NO_TOKEN,
    TOO_MANY,
    UNKNOWN,
    AccessCache,
    AccessDecision,
    AccessLimits,
    ScrapeStatus,
)

FORBIDDEN = AccessDecision(status=ScrapeStatus.FORBIDDEN, sentence="prometheus may not")
UNASKED = AccessDecision(status=ScrapeStatus.UNASKED, sentence="cannot be asked", cause="away")
MOMENT = 0.001


class Scene:
    """Tokens and their answers, a clock, and whether the API server answers at all; counts what it is asked."""

    def __init__(self, limits: AccessLimits | None = None, **answers: AccessDecision) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.at_once = self.most_at_once = 0
        self.now = 1000.0
        self.answering = asyncio.Event()
        self.answering.set()
        self.is_broken = False
        self.access = AccessCache(self.judge, limits=limits, monotonic=lambda: self.now)

    async def judge(self, token: str) -> AccessDecision:
        self.asked.append(token)
        if self.is_broken:
            raise ZeroDivisionError
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await asyncio.sleep(0)
            await self.answering.wait()
        finally:
            self.at_once -= 1
        return self.answers.get(token, UNKNOWN)

    async def scrape(self, token: str) -> ScrapeStatus:
        return (await self.access.decide(f"Bearer {token}")).status


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpw",
        "s3cret",
        "Bearer two tokens",
        "Bearer s\udc80",
        "Bearer\ts",
        "Bearer s\n",
    ],
)
def test_a_header_without_a_bearer_token_is_refused_without_a_review(header: str) -> None:
    async def scenario() -> None:
        scene = Scene()
        assert await scene.access.decide(header) is NO_TOKEN
        assert scene.asked == []

    asyncio.run(scenario())


@pytest.mark.parametrize("header", ["Bearer good", "bearer good", "BEARER   good", "Bearer good "])
def test_the_scheme_is_read_as_http_says(header: str) -> None:
    async def scenario() -> None:
        assert await Scene(good=ALLOWED).access.decide(header) is ALLOWED

    asyncio.run(scenario())


@pytest.mark.parametrize("answer", [ALLOWED, UNKNOWN, FORBIDDEN, UNASKED], ids=lambda answer: answer.status.name)
def test_an_answer_is_kept_for_its_time_and_then_asked_for_again(answer: AccessDecision) -> None:
    async def scenario() -> None:
        scene = Scene(token=answer)
        seconds = KEPT_SECONDS[answer.status]
        assert await scene.scrape("token") is answer.status
        scene.now += seconds - MOMENT
        assert await scene.scrape("token") is answer.status
        assert len(scene.asked) == 1
        scene.now += 2 * MOMENT
        await scene.scrape("token")
        assert len(scene.asked) == 2

    asyncio.run(scenario())


def test_a_revoked_permission_ends_when_the_cached_decision_expires() -> None:
    async def scenario() -> None:
        scene = Scene(token=ALLOWED)
        assert await scene.scrape("token") is ScrapeStatus.ALLOWED
        scene.answers["token"] = FORBIDDEN
        assert await scene.scrape("token") is ScrapeStatus.ALLOWED
        scene.now += KEPT_SECONDS[ScrapeStatus.ALLOWED]
        assert await scene.scrape("token") is ScrapeStatus.FORBIDDEN

    asyncio.run(scenario())


def test_access_is_cached_for_a_minute_at_most_and_a_refusal_not_longer() -> None:
    assert KEPT_SECONDS.keys() == set(ScrapeStatus) - {ScrapeStatus.TOO_MANY}
    assert max(KEPT_SECONDS.values()) == KEPT_SECONDS[ScrapeStatus.ALLOWED] <= 60


def test_scrapes_at_the_same_time_with_the_same_token_share_a_review() -> None:
    async def scenario() -> None:
        scene = Scene(token=ALLOWED)
        scene.answering.clear()
        scrapes = [asyncio.create_task(scene.scrape("token")) for _ in range(50)]
        await turns()
        scene.answering.set()
        assert set(await asyncio.gather(*scrapes)) == {ScrapeStatus.ALLOWED}
        assert scene.asked == ["token"]

    asyncio.run(scenario())


def test_a_scraper_that_disconnects_does_not_cancel_the_review_of_others() -> None:
    async def scenario() -> None:
        scene = Scene(token=ALLOWED)
        scene.answering.clear()
        leaving, staying = (asyncio.create_task(scene.scrape("token")) for _ in range(2))
        await turns()
        leaving.cancel()
        await turns()
        scene.answering.set()
        assert await staying is ScrapeStatus.ALLOWED
        assert scene.asked == ["token"]

    asyncio.run(scenario())


def test_reviews_of_many_bad_tokens_are_limited_in_number_and_rate() -> None:
    async def scenario() -> None:
        limits = AccessLimits(unknown_at_once=4, unknown_burst=20, unknown_per_second=5)
        scene = Scene(limits)
        answered: list[ScrapeStatus] = []
        for second in range(10):
            for wave in range(20):
                flood = [scene.scrape(f"bad-{second}-{wave}-{number}") for number in range(50)]
                answered += await asyncio.gather(*flood)
            scene.now += 1
        assert scene.most_at_once == 4
        assert len(scene.asked) == 20 + 9 * 5
        assert answered.count(ScrapeStatus.UNKNOWN) == len(scene.asked)
        assert answered.count(ScrapeStatus.TOO_MANY) == 10_000 - len(scene.asked)

    asyncio.run(scenario())


def test_an_allowed_token_is_reviewed_again_while_many_bad_ones_arrive() -> None:
    async def scenario() -> None:
        scene = Scene(AccessLimits(unknown_burst=5, unknown_per_second=0), good=ALLOWED)
        assert await scene.scrape("good") is ScrapeStatus.ALLOWED
        scene.now += KEPT_SECONDS[ScrapeStatus.ALLOWED]
        for number in range(5):
            await scene.scrape(f"bad-{number}")
        assert await scene.scrape("another") is ScrapeStatus.TOO_MANY
        assert await scene.scrape("good") is ScrapeStatus.ALLOWED
        assert scene.asked.count("good") == 2

    asyncio.run(scenario())


def test_an_api_server_that_does_not_answer_holds_up_no_more_than_a_few() -> None:
    async def scenario() -> None:
        scene = Scene(AccessLimits(unknown_at_once=2))
        scene.answering.clear()
        waiting = [asyncio.create_task(scene.scrape(f"bad-{number}")) for number in range(2)]
        await turns()
        assert await scene.scrape("third") is ScrapeStatus.TOO_MANY
        scene.answering.set()
        await asyncio.gather(*waiting)
        assert await scene.scrape("third") is ScrapeStatus.UNKNOWN

    asyncio.run(scenario())


def test_a_failed_review_locks_no_scraper_out() -> None:
    """Neither a fault of ours, nor an API server that is away for a while."""

    async def scenario() -> None:
        scene = Scene(token=UNASKED)
        scene.is_broken = True
        for number in range(5):
            with pytest.raises(ZeroDivisionError):
                await scene.scrape(f"bad-{number}")
        scene.is_broken = False
        assert await scene.scrape("token") is ScrapeStatus.UNASKED
        scene.answers["token"] = ALLOWED
        scene.now += KEPT_SECONDS[ScrapeStatus.UNASKED]
        assert await scene.scrape("token") is ScrapeStatus.ALLOWED

    asyncio.run(scenario())


def test_an_allowed_token_stays_known_while_the_api_server_does_not_answer() -> None:
    async def scenario() -> None:
        scene = Scene(AccessLimits(unknown_burst=1, unknown_per_second=0), good=ALLOWED)
        await scene.scrape("good")
        scene.answers["good"] = UNASKED
        scene.now += KEPT_SECONDS[ScrapeStatus.ALLOWED]
        assert await scene.scrape("good") is ScrapeStatus.UNASKED
        scene.answers["good"] = ALLOWED
        scene.now += KEPT_SECONDS[ScrapeStatus.UNASKED]
        assert await scene.scrape("good") is ScrapeStatus.ALLOWED

    asyncio.run(scenario())


def test_no_more_is_remembered_than_allowed() -> None:
    async def scenario() -> None:
        limits = AccessLimits(allowed_tokens=3, other_tokens=5, unknown_burst=100)
        scene = Scene(limits, **{f"good-{number}": ALLOWED for number in range(10)})
        for number in range(10):
            await scene.scrape(f"good-{number}")
            await scene.scrape(f"bad-{number}")
        assert (len(scene.access._allowed), len(scene.access._others)) == (3, 5)
        assert scene.access._pending == {}
        asked = len(scene.asked)
        assert await scene.scrape("good-9") is ScrapeStatus.ALLOWED
        assert len(scene.asked) == asked, "the newest are the ones that are kept"

    asyncio.run(scenario())


def test_refusals_are_logged_once_and_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        scene = Scene(one=FORBIDDEN, two=FORBIDDEN, three=UNASKED, four=UNASKED, five=ALLOWED, six=UNASKED)
        for name in ("zero", "one", "two", "three", "four", "five", "six"):
            await scene.scrape(name)
            scene.now += 1

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())
    said = [record.getMessage() for record in caplog.records if record.name.startswith("disttest")]
    assert said == [
        "a scrape was answered with 403: prometheus may not",
        "scrapes are answered with 503: cannot be asked (away)",
        "scrapes are answered with 503: cannot be asked (away)",  # again, after it could be asked
    ]


def test_too_many_says_what_to_do() -> None:
    assert "try again" in TOO_MANY.sentence


async def turns() -> None:
    """Let all other tasks run."""
    for _ in range(5):
        await asyncio.sleep(0)
