"""The API calls that node and DNS need: requests with a token, and a list + watch that never ends."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
UNREACHABLE = (aiohttp.ClientError, TimeoutError, OSError)
RETRY_SECONDS = 0.3
REQUEST_SECONDS = 30
LARGEST_OBJECT_BYTES = 1 << 22  # an object of etcd has at most 1.5 MiB, JSON escapes make it longer


class ApiError(Exception):
    def __init__(self, call: str, status: int, body: Json) -> None:
        super().__init__(f"{call}: {status} {body.get('message')}")
        self.status = status
        self.reason: str = body.get("reason", "")


class KubeApi:
    """Reads a kubeconfig of this package: JSON, one cluster, one token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server: str = cluster["server"]
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"]}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._server,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self, method: str, path: str, body: Json | None = None, *, content_type: str = "application/json", **query: str
    ) -> Json:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, data=data, headers=headers, params=query) as response:
            answer: Json = await response.json()
        if response.status >= 400:
            raise ApiError(f"{method} {path}", response.status, answer)
        return answer

    async def get(self, path: str) -> Json:
        return await self.request("GET", path)

    async def events(self, path: str, **selectors: str) -> AsyncIterator[tuple[str, Any]]:
        """Yields LIST with all items, at first and after each lost watch; then ADDED, MODIFIED, DELETED with one."""
        while True:
            try:
                listed = await self.request("GET", path, None, **selectors)
                yield "LIST", listed["items"]
                async for event in self._watch(path, selectors, listed["metadata"]["resourceVersion"]):
                    yield event["type"], event["object"]
            except (*UNREACHABLE, ApiError) as error:
                print(f"watch {path}: {error!r}", flush=True)
                await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self, path: str, selectors: dict[str, str], version: str) -> AsyncIterator[Json]:
        query = {**selectors, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        no_end = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=query, timeout=no_end, read_bufsize=LARGEST_OBJECT_BYTES) as stream:
            async for line in stream.content:
                event: Json = json.loads(line)
                if event["type"] == "ERROR":  # 410 Gone: the caller lists again
                    return
                if event["type"] != "BOOKMARK":
                    yield event
