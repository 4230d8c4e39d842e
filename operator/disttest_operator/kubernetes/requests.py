"""Counts requests to the API server by verb and resource, as in RBAC, and stops writes without the Lease."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp

from disttest_operator.core.api.resources import Kind
from disttest_operator.kubernetes.ports import ClusterError

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
    """`may_write` is called right before a write is sent; without permission the write raises a ClusterError."""
    trace = aiohttp.TraceConfig()

    def count(context: SimpleNamespace, method: str, url: Any, code: str) -> None:
        observe(describe(method, url.path, url.query), code, time.monotonic() - context.started)

    async def started(_: object, context: SimpleNamespace, __: aiohttp.TraceRequestStartParams) -> None:
        context.started = time.monotonic()

    async def ended(_: object, context: SimpleNamespace, params: aiohttp.TraceRequestEndParams) -> None:
        count(context, params.method, params.url, str(params.response.status))

    async def failed(_: object, context: SimpleNamespace, params: aiohttp.TraceRequestExceptionParams) -> None:
        count(context, params.method, params.url, "error")

    async def about_to_send(_: object, __: SimpleNamespace, params: aiohttp.TraceRequestHeadersSentParams) -> None:
        _check_fence(params.method, params.url, may_write)

    trace.on_request_start.append(started)
    # Called when the connection is open, which may take long, before the first byte is written.
    trace.on_request_headers_sent.append(about_to_send)
    trace.on_request_end.append(ended)
    trace.on_request_exception.append(failed)
    return trace


def _check_fence(method: str, url: Any, may_write: Callable[[], bool]) -> None:
    if method in READ_METHODS or describe(method, url.path, url.query).resource in UNFENCED:
        return
    if not may_write():
        raise ClusterError(f"{method} {url.path}: not sent, the Lease was not renewed in time: another may act")
