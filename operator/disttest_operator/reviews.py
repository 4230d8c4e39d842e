"""Whose a token is, and whether they may read /metrics: two questions to the API server, which stores neither."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from disttest_operator.core.model import Manifest
from disttest_operator.core.views import Body
from disttest_operator.ports import ClusterError, Kind, RefusedError

PATH = "/metrics"
READER_ROLE = "disttest-metrics-reader"
DEADLINE_SECONDS = 5.0  # for both questions: scrapers give up after ten


class Status(IntEnum):
    """What a scraper is answered."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    UNASKED = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`sentence` is for whoever scrapes, `cause` for the operator's log."""

    status: Status
    sentence: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


ALLOWED = Answer(status=Status.ALLOWED)
UNKNOWN = Answer(status=Status.UNKNOWN, sentence="the API server does not know this token, or it has expired")
NO_RIGHT = "the operator may not ask the API server who scrapes: an administrator applies manifests/rbac/metrics"
NO_ANSWER = "the API server cannot be asked now who scrapes: try again"


class Reviewing(Protocol):
    """The one thing that is asked of a cluster here."""

    async def create(self, kind: Kind, manifest: Manifest) -> Body: ...


class Reviews:
    def __init__(self, cluster: Reviewing, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._cluster = cluster
        self._deadline_seconds = deadline_seconds

    async def judge(self, token: str) -> Answer:
        """Never raises for what the API server does; the token is in no message."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                user = user_of(await self._cluster.create(Kind.TOKEN_REVIEW, token_review(token)))
                if user is None:
                    return UNKNOWN
                return verdict_on(user, await self._cluster.create(Kind.ACCESS_REVIEW, access_review(user)))
        except TimeoutError:
            cause = f"no answer within {self._deadline_seconds:g} s"
            return Answer(status=Status.UNASKED, sentence=NO_ANSWER, cause=cause)
        except RefusedError as error:
            return Answer(status=Status.UNASKED, sentence=NO_RIGHT, cause=str(error))
        except ClusterError as error:
            return Answer(status=Status.UNASKED, sentence=NO_ANSWER, cause=str(error))


def token_review(token: str) -> Manifest:
    return _manifest(Kind.TOKEN_REVIEW, "TokenReview", {"token": token})


def access_review(user: User) -> Manifest:
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
        "nonResourceAttributes": {"path": PATH, "verb": "get"},
    }
    return _manifest(Kind.ACCESS_REVIEW, "SubjectAccessReview", spec)


def user_of(body: Body) -> User | None:
    """None unless the API server says that it knows the token, and whose it is."""
    status = body.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    return User(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=tuple(user.get("groups") or ()),
        extra={key: tuple(values) for key, values in (user.get("extra") or {}).items()},
    )


def verdict_on(user: User, body: Body) -> Answer:
    status = body.get("status") or {}
    if status.get("allowed") is True and status.get("denied") is not True:
        return ALLOWED
    sentence = f"{user.name} may not get {PATH}: bind it to the ClusterRole {READER_ROLE}"
    return Answer(status=Status.FORBIDDEN, sentence=sentence)


def _manifest(kind: Kind, name: str, spec: Mapping[str, object]) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": name, "metadata": {}, "spec": dict(spec)}
