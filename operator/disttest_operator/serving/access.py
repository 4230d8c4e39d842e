"""Who may scrape, without asking the API server each time, and without letting anybody make us ask it much."""

import asyncio
import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from disttest_operator.core.api.model import Manifest
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes.ports import ClusterError, Kind, RefusedError

PATH = "/metrics"
READER_ROLE = "disttest-metrics-reader"
DEADLINE_SECONDS = 5.0  # for both questions: scrapers give up after ten


class ScrapeStatus(IntEnum):
    """What a scraper is answered."""

    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    UNASKED = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """`sentence` is for whoever scrapes, `cause` for the operator's log."""

    status: ScrapeStatus
    sentence: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    name: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


ALLOWED = AccessDecision(status=ScrapeStatus.ALLOWED)
UNKNOWN = AccessDecision(
    status=ScrapeStatus.UNKNOWN, sentence="the API server does not know this token, or it has expired"
)
NO_RIGHT = "the operator may not ask the API server who scrapes: an administrator applies manifests/rbac/metrics"
NO_ANSWER = "the API server cannot be asked now who scrapes: try again"


class Reviewing(Protocol):
    """The one thing that is asked of a cluster here."""

    async def create(self, kind: Kind, manifest: Manifest) -> Body: ...


class Reviews:
    def __init__(self, cluster: Reviewing, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._cluster = cluster
        self._deadline_seconds = deadline_seconds

    async def judge(self, token: str) -> AccessDecision:
        """Never raises for what the API server does; the token is in no message."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                user = user_of(await self._cluster.create(Kind.TOKEN_REVIEW, token_review(token)))
                if user is None:
                    return UNKNOWN
                return verdict_on(user, await self._cluster.create(Kind.ACCESS_REVIEW, access_review(user)))
        except TimeoutError:
            cause = f"no answer within {self._deadline_seconds:g} s"
            return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_ANSWER, cause=cause)
        except RefusedError as error:
            return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_RIGHT, cause=str(error))
        except ClusterError as error:
            return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_ANSWER, cause=str(error))


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


def verdict_on(user: User, body: Body) -> AccessDecision:
    status = body.get("status") or {}
    if status.get("allowed") is True and status.get("denied") is not True:
        return ALLOWED
    sentence = f"{user.name} may not get {PATH}: bind it to the ClusterRole {READER_ROLE}"
    return AccessDecision(status=ScrapeStatus.FORBIDDEN, sentence=sentence)


def _manifest(kind: Kind, name: str, spec: Mapping[str, object]) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": name, "metadata": {}, "spec": dict(spec)}


BEARER = re.compile(r"bearer +([\x21-\x7e]+) *", re.IGNORECASE)
NO_TOKEN = AccessDecision(
    status=ScrapeStatus.UNKNOWN,
    sentence="write the header Authorization: Bearer TOKEN, with the token of a ServiceAccount",
)
TOO_MANY = AccessDecision(
    status=ScrapeStatus.TOO_MANY, sentence="too many unknown tokens are being asked about: try again later"
)
KEPT_SECONDS: Mapping[ScrapeStatus, float] = MappingProxyType(
    {
        ScrapeStatus.ALLOWED: 60,  # so long may one read on whose right was taken away
        ScrapeStatus.UNKNOWN: 10,
        ScrapeStatus.FORBIDDEN: 10,  # so long waits one who was given the right
        ScrapeStatus.UNASKED: 2,
    }
)

log = logging.getLogger(__name__)
Judge = Callable[[str], Awaitable[AccessDecision]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Unknown is a token that was not allowed lately. Who scrapes again and again is not held up by those."""

    allowed_tokens: int = 64
    other_tokens: int = 256
    unknown_at_once: int = 4
    unknown_burst: int = 20
    unknown_per_second: float = 5
    told_sentences: int = 64


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: AccessDecision
    until: float


class Access:
    """Answers by the hash of the token; the token itself is not kept."""

    def __init__(
        self, judge: Judge, *, limits: Limits | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._judge = judge
        self._limits = limits or Limits()
        self._monotonic = monotonic
        self._allowed: OrderedDict[bytes, _Kept] = OrderedDict()  # beyond their time too: these are not unknown
        self._others: OrderedDict[bytes, _Kept] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[AccessDecision]] = {}
        self._asking_unknown: set[bytes] = set()
        self._budget = float(self._limits.unknown_burst)
        self._budget_at = monotonic()
        self._told: set[str] = set()
        self._failure = ""

    async def answer(self, header: str) -> AccessDecision:
        """`header` is that of Authorization. A token is asked about once at a time: who comes later waits for it."""
        found = BEARER.fullmatch(header)
        if not found:
            return NO_TOKEN
        key = hashlib.sha256(found[1].encode()).digest()
        if kept := self._kept(key):
            return kept
        asking = self._asking.get(key) or self._begin(key, found[1])
        # Shielded: one scraper that goes away takes the answer from no other.
        return await asyncio.shield(asking) if asking else TOO_MANY

    def _kept(self, key: bytes) -> AccessDecision | None:
        now = self._monotonic()
        both = (self._allowed.get(key), self._others.get(key))
        return next((kept.answer for kept in both if kept and now < kept.until), None)

    def _begin(self, key: bytes, token: str) -> asyncio.Task[AccessDecision] | None:
        """None: there are too many unknown ones."""
        if key not in self._allowed:
            if not self._may_ask_about_unknown():
                return None
            self._asking_unknown.add(key)
        asking = self._asking[key] = asyncio.create_task(self._ask(key, token), name="review")
        asking.add_done_callback(lambda _: self._end(key))
        return asking

    def _end(self, key: bytes) -> None:
        del self._asking[key]
        self._asking_unknown.discard(key)

    def _may_ask_about_unknown(self) -> bool:
        """By a bucket of questions that is filled evenly."""
        now, limits = self._monotonic(), self._limits
        gained = (now - self._budget_at) * limits.unknown_per_second
        self._budget, self._budget_at = min(self._budget + gained, limits.unknown_burst), now
        if self._budget < 1 or len(self._asking_unknown) >= limits.unknown_at_once:
            return False
        self._budget -= 1
        return True

    async def _ask(self, key: bytes, token: str) -> AccessDecision:
        answer = await self._judge(token)
        self._keep(key, answer)
        self._tell(answer)
        return answer

    def _keep(self, key: bytes, answer: AccessDecision) -> None:
        kept = _Kept(answer, self._monotonic() + KEPT_SECONDS[answer.status])
        if answer.status is ScrapeStatus.ALLOWED:
            _remember(self._allowed, key, kept, at_most=self._limits.allowed_tokens)
            return
        if answer.status is not ScrapeStatus.UNASKED:  # that says nothing of the token
            self._allowed.pop(key, None)
        _remember(self._others, key, kept, at_most=self._limits.other_tokens)

    def _tell(self, answer: AccessDecision) -> None:
        """Once: a scraper shows its user the number only, and people look here."""
        if answer.status is not ScrapeStatus.UNASKED:
            self._failure = ""
        elif answer.sentence != self._failure:
            self._failure = answer.sentence
            log.warning("scrapes are answered with 503: %s (%s)", answer.sentence, answer.cause)
        is_new = answer.sentence not in self._told and len(self._told) < self._limits.told_sentences
        if answer.status is ScrapeStatus.FORBIDDEN and is_new:
            self._told.add(answer.sentence)
            log.warning("a scrape was answered with 403: %s", answer.sentence)


def _remember(entries: OrderedDict[bytes, _Kept], key: bytes, kept: _Kept, *, at_most: int) -> None:
    """The ones that were asked about longest ago give way."""
    entries[key] = kept
    entries.move_to_end(key)
    while len(entries) > at_most:
        entries.popitem(last=False)
