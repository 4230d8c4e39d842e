"""A small API client: requests with a token, and a list and watch that never ends."""

import asyncio
import contextlib
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp

from disttest_operator.core.api.api_errors import ApiServerError, ConflictError, NotFoundError, RequestRefusedError
from disttest_operator.kubernetes.api_session import JSON, MERGE_PATCH, ApiSession

Json = dict[str, Any]

MERGE = MERGE_PATCH
STRATEGIC = "application/strategic-merge-patch+json"
RETRY_SECONDS = 0.3
REQUEST_SECONDS = 30


class KubeApi:
    """Sends requests by a kubeconfig in JSON with one cluster and one token. They raise ApiServerError."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server: str = cluster["server"]
        authority, data = cluster.get("certificate-authority"), cluster.get("certificate-authority-data")
        self._tls = ssl.create_default_context(cafile=authority, cadata=b64decode(data).decode() if data else None)
        self._token: str = config["users"][0]["user"]["token"]

    async def __aenter__(self) -> Self:
        http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=0))
        self._session = ApiSession(self._server, http, self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    async def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = JSON, **query: str
    ) -> Json:
        raw = await self._session.request(
            method, _with(path, query), body, content_type=content_type, timeout_seconds=REQUEST_SECONDS
        )
        answer: Json = json.loads(raw)
        return answer

    async def insist(
        self,
        method: str,
        path: str,
        body: Json,
        *,
        content_type: str = JSON,
        turn: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Retry, each time in a new `turn`, until the API server answers: a status must not be lost meanwhile."""
        while True:
            try:
                async with turn():
                    await self.request(method, path, body, content_type=content_type)
            except (NotFoundError, ConflictError):  # the object is gone, or another one has its name
                return
            except RequestRefusedError as error:
                print(error, flush=True)
                return
            except ApiServerError as error:
                print(error, flush=True)
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def get_text(self, path: str) -> str:
        """Read what is not JSON, such as a log."""
        return (await self._session.request("GET", path, accept="*/*", timeout_seconds=REQUEST_SECONDS)).decode()

    async def follow(
        self,
        path: str,
        seen: Callable[[Json], object],
        gone: Callable[[Json], object] = lambda _: None,
        **selectors: str,
    ) -> None:
        """Call `seen` for each object that is there or changes, and `gone` for each that no longer is there."""
        known: dict[str, Json] = {}
        async for kind, value in self.events(path, **selectors):
            if kind == "DELETED":
                lost, there = [value], []
            elif kind == "LIST":
                listed = {item["metadata"]["uid"] for item in value}
                lost, there = [item for uid, item in known.items() if uid not in listed], value
            else:
                lost, there = [], [value]
            for item in lost:
                known.pop(item["metadata"]["uid"], None)
                gone(item)
            for item in there:
                known[item["metadata"]["uid"]] = item
                seen(item)

    async def events(self, path: str, **selectors: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield LIST with all items, first and after each lost watch; then ADDED, MODIFIED, DELETED with one object."""
        while True:
            try:
                listed = await self.request("GET", path, None, **selectors)
                yield "LIST", listed["items"]
                async for event in self._watch(path, selectors, listed["metadata"]["resourceVersion"]):
                    yield event["type"], event["object"]
            except ApiServerError as error:
                print(f"watch {path}: {error}", flush=True)
                await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, path: str, selectors: dict[str, str], version: str) -> AsyncIterator[Json]:
        query = {**selectors, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._session.stream(_with(path, query)) as lines:
            async for line in lines:
                event: Json = json.loads(line)
                if event["type"] == "ERROR":  # 410 Gone: the caller lists again
                    return
                if event["type"] != "BOOKMARK":
                    yield event


def _with(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
