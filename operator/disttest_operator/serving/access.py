"""Access to /metrics, by reviews of the API server that are cached and limited in rate."""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from disttest_operator.core.api.api_errors import ApiServerError, RequestRefusedError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body

PATH = "/metrics"
READER_ROLE = "disttest-metrics-reader"
DEADLINE_SECONDS = 5.0  # for both reviews: scrapers give up after ten


class ScrapeStatus(IntEnum):
    ALLOWED = 200
    UNKNOWN = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    UNASKED = 503


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    """`sentence` is sent to the scraper, `cause` is logged."""

    status: ScrapeStatus
    sentence: str = ""
    cause: str = ""


ALLOWED = AccessDecision(status=ScrapeStatus.ALLOWED)
UNKNOWN = AccessDecision(status=ScrapeStatus.UNKNOWN, sentence="the token is not valid, or has expired")
NO_RIGHT = "the operator has no permission to review tokens; an administrator must apply manifests/rbac/metrics"
NO_ANSWER = "the API server does not respond to token reviews; try again"


Create = Callable[[Kind, Manifest], Awaitable[Body]]  # of a Cluster


async def review_token(create: Create, token: str, *, deadline_seconds: float = DEADLINE_SECONDS) -> AccessDecision:
    """Never raises for an error of the API server; the token is in no message."""
    try:
        async with asyncio.timeout(deadline_seconds):
            user = read_user(await create(Kind.TOKEN_REVIEW, token_review(token)))
            if user is None:
                return UNKNOWN
            return decide(user, await create(Kind.ACCESS_REVIEW, access_review(user)))
    except TimeoutError:
        cause = f"no response within {deadline_seconds:g} s"
        return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_ANSWER, cause=cause)
    except RequestRefusedError as error:
        return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_RIGHT, cause=str(error))
    except ApiServerError as error:
        return AccessDecision(status=ScrapeStatus.UNASKED, sentence=NO_ANSWER, cause=str(error))


def token_review(token: str) -> Manifest:
    return _manifest(Kind.TOKEN_REVIEW, "TokenReview", {"token": token})


def access_review(user: Body) -> Manifest:
    spec = {
        "user": str(user["username"]),
        "uid": str(user.get("uid") or ""),
        "groups": list(user.get("groups") or ()),
        "extra": {key: list(values) for key, values in (user.get("extra") or {}).items()},
        "nonResourceAttributes": {"path": PATH, "verb": "get"},
    }
    return _manifest(Kind.ACCESS_REVIEW, "SubjectAccessReview", spec)


def read_user(review: Body) -> Body | None:
    """The user of a TokenReview; None unless the API server has authenticated the token and names the user."""
    status = review.get("status") or {}
    user: Body = status.get("user") or {}
    return user if status.get("authenticated") is True and user.get("username") else None


def decide(user: Body, review: Body) -> AccessDecision:
    status = review.get("status") or {}
    if status.get("allowed") is True and status.get("denied") is not True:
        return ALLOWED
    sentence = f"{user['username']} has no permission to get {PATH}; bind it to the ClusterRole {READER_ROLE}"
    return AccessDecision(status=ScrapeStatus.FORBIDDEN, sentence=sentence)


def _manifest(kind: Kind, name: str, spec: Mapping[str, object]) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": name, "metadata": {}, "spec": dict(spec)}


BEARER = re.compile(r"bearer +([\x21-\x7e]+) *", re.IGNORECASE)
NO_TOKEN = AccessDecision(
    status=ScrapeStatus.UNKNOWN,
    sentence="write the header Authorization: Bearer TOKEN, with the token of a ServiceAccount",
)
TOO_MANY = AccessDecision(status=ScrapeStatus.TOO_MANY, sentence="too many unknown tokens; try again later")
KEPT_SECONDS: Mapping[ScrapeStatus, float] = {
    ScrapeStatus.ALLOWED: 60,  # a scraper keeps access for this time after its permission was removed
    ScrapeStatus.UNKNOWN: 10,
    ScrapeStatus.FORBIDDEN: 10,  # a scraper waits for this time after its permission was added
    ScrapeStatus.UNASKED: 2,
}

log = logging.getLogger(__name__)
Review = Callable[[str], Awaitable[AccessDecision]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLimits:
    """A token that was not allowed recently is unknown. Reviews of unknown tokens do not delay those of others."""

    allowed_tokens: int = 64
    other_tokens: int = 256
    unknown_at_once: int = 4
    unknown_burst: int = 20
    unknown_per_second: float = 5
    logged_sentences: int = 64


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    decision: AccessDecision
    until: float


class AccessCache:
    """Decisions by the hash of the token; the token itself is not kept."""

    def __init__(
        self, review: Review, *, limits: AccessLimits | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._review = review
        self._limits = limits or AccessLimits()
        self._monotonic = monotonic
        # Expired ones too: these tokens are not unknown.
        self._allowed: dict[bytes, _CachedDecision] = {}
        self._others: dict[bytes, _CachedDecision] = {}
        self._pending: dict[bytes, asyncio.Task[AccessDecision]] = {}
        self._pending_unknown: set[bytes] = set()
        self._budget = float(self._limits.unknown_burst)
        self._budget_at = monotonic()
        self._logged: set[str] = set()
        self._failure = ""

    async def decide(self, header: str) -> AccessDecision:
        """`header` is Authorization. Concurrent requests with the same token share one review."""
        found = BEARER.fullmatch(header)
        if not found:
            return NO_TOKEN
        key = hashlib.sha256(found[1].encode()).digest()
        if cached := self._find(key):
            return cached
        review = self._pending.get(key) or self._start_review(key, found[1])
        # Shielded: a scraper that disconnects must not cancel the review of others.
        return await asyncio.shield(review) if review else TOO_MANY

    def _find(self, key: bytes) -> AccessDecision | None:
        now = self._monotonic()
        both = (self._allowed.get(key), self._others.get(key))
        return next((cached.decision for cached in both if cached and now < cached.until), None)

    def _start_review(self, key: bytes, token: str) -> asyncio.Task[AccessDecision] | None:
        """None: there are too many reviews of unknown tokens."""
        if key not in self._allowed:
            if not self._may_review_unknown():
                return None
            self._pending_unknown.add(key)
        review = self._pending[key] = asyncio.create_task(self._review_token(key, token), name="review")
        review.add_done_callback(lambda _: self._end(key))
        return review

    def _end(self, key: bytes) -> None:
        del self._pending[key]
        self._pending_unknown.discard(key)

    def _may_review_unknown(self) -> bool:
        """By a token bucket."""
        now, limits = self._monotonic(), self._limits
        gained = (now - self._budget_at) * limits.unknown_per_second
        self._budget, self._budget_at = min(self._budget + gained, limits.unknown_burst), now
        if self._budget < 1 or len(self._pending_unknown) >= limits.unknown_at_once:
            return False
        self._budget -= 1
        return True

    async def _review_token(self, key: bytes, token: str) -> AccessDecision:
        decision = await self._review(token)
        self._store(key, decision)
        self._log(decision)
        return decision

    def _store(self, key: bytes, decision: AccessDecision) -> None:
        cached = _CachedDecision(decision, self._monotonic() + KEPT_SECONDS[decision.status])
        if decision.status is ScrapeStatus.ALLOWED:
            _remember(self._allowed, key, cached, at_most=self._limits.allowed_tokens)
            return
        if decision.status is not ScrapeStatus.UNASKED:  # which is no decision about the token
            self._allowed.pop(key, None)
        _remember(self._others, key, cached, at_most=self._limits.other_tokens)

    def _log(self, decision: AccessDecision) -> None:
        """Log each refusal once: a scraper only shows the status to its user."""
        if decision.status is not ScrapeStatus.UNASKED:
            self._failure = ""
        elif decision.sentence != self._failure:
            self._failure = decision.sentence
            log.warning("scrapes are answered with 503: %s (%s)", decision.sentence, decision.cause)
        is_new = decision.sentence not in self._logged and len(self._logged) < self._limits.logged_sentences
        if decision.status is ScrapeStatus.FORBIDDEN and is_new:
            self._logged.add(decision.sentence)
            log.warning("a scrape was answered with 403: %s", decision.sentence)


def _remember(entries: dict[bytes, _CachedDecision], key: bytes, cached: _CachedDecision, *, at_most: int) -> None:
    """Drop those that were reviewed longest ago."""
    entries.pop(key, None)
    entries[key] = cached
    while len(entries) > at_most:
        del entries[next(iter(entries))]
