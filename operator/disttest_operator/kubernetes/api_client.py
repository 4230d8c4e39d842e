"""The Kubernetes client: sends and returns plain dicts over one session, and counts every request."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, NotRequired, TypedDict, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from disttest_contract import limits
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes import ports, requests
from disttest_operator.kubernetes.log_streams import LogStreams
from disttest_operator.kubernetes.ports import ClusterError, ConflictError, Page
from disttest_operator.kubernetes.requests import Observer


class _Meta(TypedDict):
    uid: str
    name: str
    namespace: NotRequired[str]
    resourceVersion: str


class _Item(TypedDict):
    metadata: _Meta


_ListMeta = TypedDict("_ListMeta", {"resourceVersion": str, "continue": NotRequired[str]})


class _List(TypedDict):
    metadata: _ListMeta
    items: list[_Item] | None  # an empty list of metadata has none


_decoder = msgspec.json.Decoder(_List)


def read_page(raw: bytes) -> tuple[Page, str]:
    """A page of whole objects and its continue token. Raises ClusterError if it is no list."""
    try:
        page = json.loads(raw)
        meta = page["metadata"]
        return (page["items"], int(meta["resourceVersion"])), meta.get("continue") or ""
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterError(f"a list cannot be read: {error!r}") from error


def read_metadata_page(raw: bytes) -> tuple[Page, str]:
    """A page with only the metadata to compare versions, and its continue token. Raises ClusterError if it is no list.

    Managed fields are most of it. The decoder skips them: as dicts those of 5,000 Jobs take a second of processor time.
    """
    try:
        page = _decoder.decode(raw)
        listed = cast("Page", (page["items"] or [], int(page["metadata"]["resourceVersion"])))
    except ValueError as error:
        raise ClusterError(f"a list of metadata cannot be read: {error}") from error
    return listed, page["metadata"].get("continue", "")


TIMEOUT_SECONDS = 15
LOG_TIMEOUT_SECONDS = 60
OTHER_CONNECTIONS = 16  # besides those of workers: Lease, informer
PAGE = 500  # objects per list request
NO_END: Final = aiohttp.ClientTimeout(total=None)  # every request has its own deadline
JSON: Final = "application/json"
METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
MERGE_PATCH: Final = "application/merge-patch+json"

# Kinds of which the answer to a creation is not needed.
WRITTEN_ONLY = frozenset({Kind.SERVICE, Kind.CONFIG_MAP, Kind.EVENT})
WRITER: Final = urlencode({"fieldManager": naming.FIELD_MANAGER})
NOTHING = "metadata.name=.."  # no object has this name


class KubernetesCluster:
    """A cluster by its API server. Created by `connect`."""

    def __init__(self, configuration: Any, observe: Observer, *, connections: int) -> None:
        self._configuration = configuration
        self._observe = observe
        self._may_write: Callable[[], bool] = lambda: True
        self._tls = kube_client.ApiClient(configuration).rest_client.ssl_context
        # Plain requests: the models, retries and proxy look-ups of the client would double their cost.
        self._session = self._new_session(limit=connections)
        self._streams = LogStreams(self._new_session(), self._auth_headers)
        self._date = ""
        self.gap = asyncio.Event()

    @property
    def server(self) -> str:
        return str(self._configuration.host)

    @property
    def server_time(self) -> datetime | None:
        try:
            return parsedate_to_datetime(self._date).astimezone(UTC)
        except ValueError:
            return None

    async def close(self) -> None:
        await self._session.close()
        await self._streams.close()

    def fence(self, may_write: Callable[[], bool]) -> None:
        """Send only Leases and reviews from now on, unless `may_write` returns true right before a request."""
        self._may_write = may_write

    def _may_send(self) -> bool:
        return self._may_write()

    def watch_session(self) -> aiohttp.ClientSession:
        """A session for kopf, which closes it. Each request gets the current token, since tokens expire.

        kopf lists before it watches. Its lists are made empty, with a resourceVersion only: the informer lists the
        objects afterwards, which costs a tenth per object and also finds deleted ones.
        """

        async def authorize(
            request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
        ) -> aiohttp.ClientResponse:
            request.headers.update(await self._auth_headers())
            if requests.describe(request.method, request.url.path, request.url.query).verb != "list":
                return await handler(request)
            request.url = request.url.update_query(fieldSelector=NOTHING)
            response = await handler(request)
            if response.status == 200:
                self.gap.set()
            return response

        return self._new_session(authorize)

    def _new_session(self, *middlewares: aiohttp.ClientMiddlewareType, limit: int = 0) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=self._tls),
            middlewares=middlewares,
            trace_configs=[requests.trace_requests(self._observe, self._may_send)],
            headers={"User-Agent": naming.MANAGED_BY},
            proxy=self._configuration.proxy or None,
        )

    async def get(self, kind: Kind, namespace: str, name: str, *, only_metadata: bool = False) -> Body | None:
        accept = METADATA if only_metadata else JSON
        return await self._json("GET", kind.path(namespace, name), accept=accept, missing_ok=True)

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> tuple[list[Body], int]:
        items: list[Body] = []
        version = 0
        pages = self.pages(kind, namespace, label_selector=label_selector, field_selector=field_selector)
        async for page, version in pages:  # noqa: B007  # the last one is returned
            items += page
        return items, version

    async def pages(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        accept, read = (METADATA_LIST, read_metadata_page) if only_metadata else (JSON, read_page)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {"limit": str(PAGE), **selectors, "continue": ""}
        while True:
            chosen = urlencode({key: value for key, value in query.items() if value})
            raw = await self._request("GET", f"{kind.path(namespace)}?{chosen}", accept=accept)
            page, query["continue"] = read(raw or b"")
            yield page
            if not query["continue"]:
                return

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        path = kind.path(manifest["metadata"].get("namespace", ""))
        accept = METADATA if kind in WRITTEN_ONLY else JSON
        return await self._json("POST", f"{path}?{WRITER}", manifest, accept=accept) or {}

    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        meta = manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        return await self._json("PUT", f"{path}?{WRITER}", manifest) or {}

    async def patch_status(self, kind: Kind, body_meta: Mapping[str, Any], status: Mapping[str, Any]) -> Body | None:
        path = f"{kind.path(body_meta['namespace'], body_meta['name'])}/status?{WRITER}"
        patch = {"metadata": _guard(body_meta), "status": status}
        return await self._json("PATCH", path, patch, content_type=MERGE_PATCH, missing_ok=True)

    async def patch_owners(self, kind: Kind, body_meta: Mapping[str, Any], owners: Sequence[Manifest]) -> None:
        path = f"{kind.path(body_meta['namespace'], body_meta['name'])}?{WRITER}"
        patch = {"metadata": {**_guard(body_meta), "ownerReferences": list(owners)}}
        await self._json("PATCH", path, patch, content_type=MERGE_PATCH, accept=METADATA, missing_ok=True)

    async def patch_labels(self, kind: Kind, name: str, labels: Mapping[str, str | None]) -> None:
        path = f"{kind.path(name=name)}?{WRITER}"
        await self._json("PATCH", path, {"metadata": {"labels": labels}}, content_type=MERGE_PATCH, missing_ok=True)

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, version: str = "") -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid, **({"resourceVersion": version} if version else {})},
        }
        try:
            await self._json("DELETE", kind.path(namespace, name), options, missing_ok=True)
        except ConflictError:
            if version:
                raise
            return  # another object has the name: the one to delete is gone

    async def log(self, namespace: str, pod: str, *, limit_bytes: int) -> bytes | None:
        query = urlencode({"container": naming.CONTAINER, "limitBytes": limit_bytes})
        path = f"{Kind.POD.path(namespace, pod)}/log?{query}"
        return await self._request("GET", path, accept="*/*", missing_ok=True, timeout_seconds=LOG_TIMEOUT_SECONDS)

    def follow_log(
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        how = {"container": naming.CONTAINER, "follow": "true", "tailLines": tail_lines, "limitBytes": limit_bytes}
        url = f"{self.server}{Kind.POD.path(namespace, pod)}/log?{urlencode(how)}"
        return self._streams.lines(url, prefix=prefix, limit_bytes=limits.FRAME_LINE_BYTES)

    async def _json(
        self, method: str, path: str, body: Manifest | None = None, **options: Any
    ) -> dict[str, Any] | None:
        raw = await self._request(method, path, body, **options)
        try:
            return None if raw is None else json.loads(raw)
        except ValueError as error:
            raise ClusterError(f"{method} {path}: the answer is no JSON: {error}") from error

    async def _request(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        missing_ok: bool = False,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> bytes | None:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        try:
            headers = {"Accept": accept, "Content-Type": content_type, **await self._auth_headers()}
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.request(
                    method, self.server + path, headers=headers, data=data, timeout=NO_END
                ) as response,
            ):
                self._date = response.headers.get("Date", "")
                raw: bytes = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ClusterError(f"{method} {path}: {type(error).__name__}: {error}") from error
        if response.status < 400:
            return raw
        if response.status == 404 and missing_ok:
            return None
        raise ports.error_of_answer(response.status, f"{method} {path}", raw)

    async def _auth_headers(self) -> dict[str, str]:
        settings = await self._configuration.auth_settings()
        return {entry["key"].title(): entry["value"] for entry in settings.values() if entry["in"] == "header"}


async def connect(observe: Observer, *, kubeconfig: str = "", workers: int = 16) -> KubernetesCluster:
    """Connect by a kubeconfig if given, else as the ServiceAccount of this pod."""
    configuration = kube_client.Configuration()
    try:
        if kubeconfig:
            await kube_config.load_kube_config(config_file=kubeconfig, client_configuration=configuration)
        else:
            kube_config.load_incluster_config(client_configuration=configuration)
    except (kube_config.ConfigException, OSError) as error:
        raise ClusterError(f"no way to reach a cluster: {error}; give --kubeconfig, or run in a pod") from error
    return KubernetesCluster(configuration, observe, connections=workers + OTHER_CONNECTIONS)


def _guard(body_meta: Mapping[str, Any]) -> dict[str, str]:
    return {"uid": body_meta["uid"], "resourceVersion": str(body_meta["resourceVersion"])}
