"""A proxy between operator and API server that loses, delays and refuses requests as `faults` says."""

import asyncio
import contextlib
import json
import random
import socket
import ssl
import struct
from base64 import b64decode
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

HOP_BY_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"})
CHUNK_BYTES = 1 << 16
AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@dataclass(slots=True)
class Faults:
    """Probabilities are those of requests except watches; a fault that is 0 or false does not occur."""

    too_many: float = 0.0  # 429
    error: float = 0.0  # 500, and the request is not sent on
    lost: float = 0.0  # the request is carried out, and the connection reset before the response
    latency_seconds: float = 0.0
    is_hanging: bool = False  # no answer to anything
    is_gone: bool = False  # watches are answered with 410


class Proxy:
    """Speaks plain HTTP to the operator, whose kubeconfig it writes, and TLS to the API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._config: dict[str, Any] = json.loads(kubeconfig.read_text())
        self.kubeconfig = kubeconfig.with_suffix(".proxy")
        self._chance = random.Random(1)  # noqa: S311 - faults, no secrets
        self._watches: set[asyncio.BaseTransport] = set()
        self.faults = Faults()
        self.done: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        cluster = self._config["clusters"][0]["cluster"]
        tls = ssl.create_default_context(cadata=b64decode(cluster.pop("certificate-authority-data")).decode())
        no_end = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(
            cluster["server"],
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=no_end,
            auto_decompress=False,
        )
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, shutdown_timeout=0.5)
        await site.start()
        port = self._runner.addresses[0][1]
        cluster["server"] = f"http://127.0.0.1:{port}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(self._config))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        await self._runner.cleanup()
        await self._session.close()

    def cut_watches(self) -> None:
        """Reset the connections of all watches in mid-stream."""
        cut = [transport for transport in self._watches if not transport.is_closing()]
        for transport in cut:
            _reset(transport)
        self.done["watches cut"] += len(cut)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        is_watch = request.query.get("watch", "").lower() in {"1", "true"}
        await asyncio.sleep(self.faults.latency_seconds)
        while self.faults.is_hanging:  # noqa: ASYNC110 - a plain field that others set
            await asyncio.sleep(0.1)
        if is_watch and self.faults.is_gone:
            self.done["410"] += 1
            return web.json_response({"type": "ERROR", "object": _status(410, "Expired", "too old resource version")})
        if not is_watch and (refusal := self._refusal()):
            return refusal
        try:
            return await self._forward(request, is_watch=is_watch)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):  # either side has gone
            _reset(request.transport)
            return web.Response(status=502)

    def _refusal(self) -> web.Response | None:
        dice = self._chance.random()
        if dice < self.faults.too_many:
            self.done["429"] += 1
            answer = _status(429, "TooManyRequests", "the server has received too many requests")
            return web.json_response(answer, status=429, headers={"Retry-After": "1"})
        if dice < self.faults.too_many + self.faults.error:
            self.done["500"] += 1
            return web.json_response(_status(500, "InternalError", "etcdserver: request timed out"), status=500)
        return None

    async def _forward(self, request: web.BaseRequest, *, is_watch: bool) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read() or None  # an empty body would add a content type
        async with self._session.request(request.method, request.raw_path, data=body, headers=headers) as answer:
            if not is_watch and self._chance.random() < self.faults.lost:
                await answer.read()
                self.done["answers lost"] += 1
                _reset(request.transport)
                return web.Response(status=500)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            if is_watch and request.transport:
                self._watches.add(request.transport)
            try:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            finally:
                if request.transport:
                    self._watches.discard(request.transport)
            await response.write_eof()
            return response


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    kind = {"kind": "Status", "apiVersion": "v1"}
    return {**kind, "status": "Failure", "code": code, "reason": reason, "message": message}


def _reset(transport: asyncio.BaseTransport | None) -> None:
    if isinstance(transport, asyncio.Transport) and not transport.is_closing():
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        transport.abort()
