"""An HTTP session to one API server, for operator and development cluster: sends, counts and fences requests."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import SimpleNamespace
from typing import Any, Final

import aiohttp

from disttest_operator.core.api import api_errors
from disttest_operator.core.api.api_errors import (
    ApiServerError,
    ResponseLostError,
    ServerBusyError,
    ServerUnreachableError,
)
from disttest_operator.core.api.resources import Kind

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    verb: str
    resource: str
    namespace: str = ""


def describe(method: str, path: str, query: Mapping[str, str]) -> ApiRequest:
    """For example: `GET /api/v1/namespaces/n/pods/p/log` is get pods/log."""
    parts = [part for part in path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return ApiRequest(verb="get", resource="discovery")
    resource = "/".join([rest[0], *rest[2:3]])
    if method != "GET":
        return ApiRequest(verb=VERBS.get(method, method.lower()), resource=resource, namespace=namespace)
    if query.get("watch", "").lower() in {"true", "1"}:
        return ApiRequest(verb="watch", resource=resource, namespace=namespace)
    return ApiRequest(verb="get" if len(rest) > 1 else "list", resource=resource, namespace=namespace)


# A standby sends these too: Leases elect the active operator, and reviews are not stored.
UNFENCED = frozenset({kind.resource for kind in (Kind.LEASE, Kind.TOKEN_REVIEW, Kind.ACCESS_REVIEW)})
READ_METHODS = frozenset({"GET", "HEAD"})

# Called for every request when it is answered, with its code and duration in seconds.
Observer = Callable[[ApiRequest, str, float], None]


def trace_requests(observe: Observer, may_write: Callable[[], bool]) -> aiohttp.TraceConfig:
    """`may_write` is called right before a write is sent; without permission the write raises an ApiServerError."""
    trace = aiohttp.TraceConfig()

    async def started(_: object, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
        context.started = time.monotonic()

    async def ended(
        _: object, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams | aiohttp.TraceRequestExceptionParams
    ) -> None:
        code = str(params.response.status) if isinstance(params, aiohttp.TraceRequestEndParams) else "error"
        request = describe(params.method, params.url.path, params.url.query)
        observe(request, code, time.monotonic() - context.started)

    async def about_to_send(_: object, __: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams) -> None:
        method, url = params.method, params.url
        if method in READ_METHODS or describe(method, url.path, url.query).resource in UNFENCED:
            return
        if not may_write():
            raise ApiServerError(
                f"{method} {url.path}: not sent, since the Lease was not renewed and another operator may be active"
            )

    trace.on_request_start.append(started)
    # Called when the connection is open, which may take long, before the first byte is written.
    trace.on_request_headers_sent.append(about_to_send)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(ended)
    return trace


TIMEOUT_SECONDS = 15
NO_END: Final = aiohttp.ClientTimeout(total=None)  # every request has its own deadline
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
LARGEST_OBJECT_BYTES = 1 << 22  # an object of etcd has at most 1.5 MiB, JSON escapes make it longer
ERROR_BYTES = 4096  # that are read of an error

Headers = Callable[[], Awaitable[Mapping[str, str]]]


class ApiSession:
    """Sends requests over `http`, which it closes; every failure is an ApiServerError.

    `headers` returns those of the credentials. It is called for each request, since tokens expire.
    """

    def __init__(self, server: str, http: aiohttp.ClientSession, headers: Headers) -> None:
        self._server = server
        self._http = http
        self._headers = headers
        self._date = ""

    @property
    def server_time(self) -> datetime | None:
        """The API server's clock at its last answer."""
        try:
            return parsedate_to_datetime(self._date).astimezone(UTC)
        except ValueError:
            return None

    async def close(self) -> None:
        await self._http.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> bytes:
        """The body of the response, read within `timeout_seconds`. Raises ApiServerError."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        what = f"{method} {path}"
        with _failures_of(what):
            headers = {"Accept": accept, "Content-Type": content_type, **await self._headers()}
            async with (
                asyncio.timeout(timeout_seconds),
                self._http.request(method, self._server + path, headers=headers, data=data, timeout=NO_END) as response,
            ):
                self._date = response.headers.get("Date", "")
                raw = await response.read()
        if response.status >= 400:
            raise _error(response.status, raw, what)
        return raw

    @asynccontextmanager
    async def stream(self, path: str, *, accept: str = JSON) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a response that may never end; it begins within TIMEOUT_SECONDS. Raises ApiServerError.

        A line of the stream may be LARGEST_OBJECT_BYTES long.
        """
        what = f"GET {path.partition('?')[0]}"
        with _failures_of(what):
            headers = {"Accept": accept, **await self._headers()}
            async with (
                asyncio.timeout(TIMEOUT_SECONDS) as patience,
                self._http.get(
                    self._server + path, headers=headers, timeout=NO_END, read_bufsize=LARGEST_OBJECT_BYTES
                ) as response,
            ):
                if response.status >= 400:
                    raise _error(response.status, await response.content.read(ERROR_BYTES), what)
                patience.reschedule(None)
                yield response.content


@contextmanager
def _failures_of(what: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise ServerUnreachableError(f"{what}: {type(error).__name__}: {error}") from error
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise ResponseLostError(f"{what}: {type(error).__name__}: {error}") from error


def _error(code: int, raw: bytes, what: str) -> ApiServerError:
    error = api_errors.error_of(code, raw, request=what)
    return ServerBusyError(str(error)) if code == 401 else error  # the next request may have a newer token
