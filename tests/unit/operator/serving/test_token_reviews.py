"""What the API server is asked of a token, and what its answers mean."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.serving.access import AccessDecision, ScrapeStatus, review_token

TOKEN = "s3cret"
PROMETHEUS = "system:serviceaccount:monitoring:prometheus"
USER = {"username": PROMETHEUS, "uid": "u-1", "groups": ["system:serviceaccounts"], "extra": {"pod": ["p-0"]}}
KNOWN = {"authenticated": True, "user": USER}
ALLOWED = {"allowed": True}
NO_RIGHT = RequestRefusedError("POST /apis/…/tokenreviews: 403 forbidden")
AWAY = ApiServerError("POST /apis/…: ClientConnectorError")

Said = Mapping[str, Any] | Exception


class ApiServer:
    """Answers with these statuses, or raises; None hangs."""

    def __init__(self, token: Said | None, access: Said | None) -> None:
        self._answers = {Kind.TOKEN_REVIEW: token, Kind.ACCESS_REVIEW: access}
        self.asked: list[Manifest] = []

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        self.asked.append(manifest)
        answer = self._answers[kind]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        return {"metadata": {}, "status": answer}


def judge(server: ApiServer) -> AccessDecision:
    return asyncio.run(review_token(server.create, TOKEN, deadline_seconds=0.05))


ROWS: dict[str, tuple[Said | None, Said | None, ScrapeStatus, str]] = {
    "known and allowed": (KNOWN, ALLOWED, ScrapeStatus.ALLOWED, ""),
    "unknown": ({"error": "invalid bearer token"}, ALLOWED, ScrapeStatus.UNKNOWN, "the token is not valid"),
    "said to be false": ({**KNOWN, "authenticated": False}, ALLOWED, ScrapeStatus.UNKNOWN, "the token is not valid"),
    "without a user": ({"authenticated": True, "user": {}}, ALLOWED, ScrapeStatus.UNKNOWN, "the token is not valid"),
    "no word": ({}, ALLOWED, ScrapeStatus.UNKNOWN, "the token is not valid"),
    "not allowed": (
        KNOWN,
        {"allowed": False},
        ScrapeStatus.FORBIDDEN,
        f"{PROMETHEUS} has no permission to get /metrics; bind it to",
    ),
    "denied": (KNOWN, {"allowed": True, "denied": True}, ScrapeStatus.FORBIDDEN, "ClusterRole disttest-metrics-reader"),
    "no decision": (KNOWN, {}, ScrapeStatus.FORBIDDEN, "has no permission to get /metrics"),
    "no right to ask": (NO_RIGHT, ALLOWED, ScrapeStatus.UNASKED, "an administrator must apply manifests/rbac/metrics"),
    "no right to ask the second": (KNOWN, NO_RIGHT, ScrapeStatus.UNASKED, "must apply manifests/rbac/metrics"),
    "away": (AWAY, ALLOWED, ScrapeStatus.UNASKED, "does not respond to token reviews"),
    "away for the second": (KNOWN, AWAY, ScrapeStatus.UNASKED, "does not respond to token reviews"),
    "hangs": (None, ALLOWED, ScrapeStatus.UNASKED, "does not respond to token reviews"),
    "hangs at the second": (KNOWN, None, ScrapeStatus.UNASKED, "does not respond to token reviews"),
}


@pytest.mark.parametrize(("token", "access", "status", "words"), ROWS.values(), ids=ROWS)
def test_the_review_of_the_api_server_decides_the_answer_to_a_scraper(
    token: Said | None, access: Said | None, status: ScrapeStatus, words: str
) -> None:
    answer = judge(ApiServer(token, access))
    assert answer.status is status
    assert words in answer.sentence
    assert bool(answer.sentence) is (status is not ScrapeStatus.ALLOWED)


def test_the_second_question_is_about_exactly_the_user_of_the_first() -> None:
    server = ApiServer(KNOWN, ALLOWED)
    judge(server)
    first, second = server.asked
    assert (first["apiVersion"], first["kind"], first["spec"]) == (
        "authentication.k8s.io/v1",
        "TokenReview",
        {"token": TOKEN},
    )
    assert (second["apiVersion"], second["kind"]) == ("authorization.k8s.io/v1", "SubjectAccessReview")
    assert second["spec"] == {
        "user": PROMETHEUS,
        "uid": "u-1",
        "groups": ["system:serviceaccounts"],
        "extra": {"pod": ["p-0"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


def test_of_an_unknown_token_nothing_more_is_asked() -> None:
    server = ApiServer({}, ALLOWED)
    judge(server)
    assert [manifest["kind"] for manifest in server.asked] == ["TokenReview"]


@pytest.mark.parametrize(("token", "access"), [row[:2] for row in ROWS.values()], ids=ROWS)
def test_the_token_is_in_no_answer(token: Said | None, access: Said | None) -> None:
    assert TOKEN not in repr(judge(ApiServer(token, access)))
