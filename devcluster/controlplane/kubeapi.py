"""A small API client: requests with a token, and a list and watch that never ends."""

import asyncio
import json
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
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
    """Sends requests by a kubeconfig in JSON with one cluster and one token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server: str = cluster["server"]
        authority, data = cluster.get("certificate-authority"), cluster.get("certificate-authority-data")
        self._tls = ssl.create_default_context(cafile=authority, cadata=b64decode(data).decode() if data else None)
        self._headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"]}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            self._server,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
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

    async def get_text(self, path: str) -> str:
        """Read what is not JSON, such as a log; raise aiohttp.ClientResponseError if that fails."""
        async with self._session.get(path, raise_for_status=True) as response:
            return await response.text()

    async def events(self, path: str, **selectors: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield LIST with all items, first and after each lost watch; then ADDED, MODIFIED, DELETED with one object."""
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
