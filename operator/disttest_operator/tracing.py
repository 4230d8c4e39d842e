"""Around every request to the API server: it is counted, and what only the active operator may send is held back."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp

from disttest_operator import requests
from disttest_operator.ports import ClusterError, Kind

# Who may write is said by Leases, and of a review nothing is kept: these are sent by a standby too.
BY_ALL = frozenset({kind.resource for kind in (Kind.LEASE, Kind.TOKEN_REVIEW, Kind.ACCESS_REVIEW)})
READING = frozenset({"GET", "HEAD"})

# Told of every request when it is answered: request, code, seconds.
Observer = Callable[[requests.Request, str, float], None]


def of_requests(observe: Observer, may_write: Callable[[], bool]) -> aiohttp.TraceConfig:
    """`may_write` is asked at the last moment; what is not sent then ends with a ClusterError."""
    trace = aiohttp.TraceConfig()

    def count(context: SimpleNamespace, method: str, url: Any, code: str) -> None:
        observe(requests.describe(method, url.path, url.query), code, time.monotonic() - context.begun)

    async def begun(_: object, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
        context.begun = time.monotonic()

    async def ended(_: object, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        count(context, params.method, params.url, str(params.response.status))

    async def failed(_: object, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
        count(context, params.method, params.url, "error")

    async def about_to_send(_: object, __: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams) -> None:
        _check_fence(params.method, params.url, may_write)

    trace.on_request_start.append(begun)
    # Called before the first byte is written, when the connection is there: making one may take its time.
    trace.on_request_headers_sent.append(about_to_send)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return trace


def _check_fence(method: str, url: Any, may_write: Callable[[], bool]) -> None:
    if method in READING or requests.describe(method, url.path, url.query).resource in BY_ALL:
        return
    if not may_write():
        raise ClusterError(f"{method} {url.path}: not sent, the Lease was not renewed in time: another may act")
