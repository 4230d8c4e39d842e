"""The Kubernetes client: sends and returns plain dicts over one session, and counts every request."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, NotRequired, TypedDict, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from disttest_contract import limits
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import ApiServerError, ConflictError, NotFoundError
from disttest_operator.core.api.model import Manifest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body
from disttest_operator.kubernetes import api_session, log_streams
from disttest_operator.kubernetes.api_session import JSON, MERGE_PATCH, ApiSession, Observer
from disttest_operator.kubernetes.ports import Page

T = TypeVar("T")


class _Meta(TypedDict):
    uid: str
    name: str
    namespace: NotRequired[str]
    resourceVersion: str


class _Item(TypedDict):
    metadata: _Meta


_ListMeta = TypedDict("_ListMeta", {"resourceVersion": str, "continue": NotRequired[str]})


class _List(TypedDict, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None  # an empty list of metadata has none


# It skips managed fields, which are most of the metadata: as dicts those of 5,000 Jobs take a second of processor time.
METADATA_PAGE = msgspec.json.Decoder(_List[_Item])
OBJECT_PAGE = msgspec.json.Decoder(_List[dict[str, Any]])


def read_page(raw: bytes, decoder: "msgspec.json.Decoder[_List[Any]]") -> tuple[Page, str]:
    """A page of a list and its continue token. Raises ApiServerError if it is no list."""
    try:
        page = decoder.decode(raw)
        meta = page["metadata"]
        return (page["items"] or [], int(meta["resourceVersion"])), meta.get("continue", "")
    except ValueError as error:
        raise ApiServerError(f"a list cannot be read: {error}") from error


LOG_TIMEOUT_SECONDS = 60
OTHER_CONNECTIONS = 16  # in addition to those of workers: Lease, informer
PAGE = 500  # objects per list request
METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

# Kinds of which the answer to a creation is not needed.
WRITTEN_ONLY = frozenset({Kind.SERVICE, Kind.CONFIG_MAP, Kind.EVENT})
WRITER: Final = urlencode({"fieldManager": naming.FIELD_MANAGER})
NOTHING = "metadata.name=.."  # no object has this name


class KubernetesCluster:
    """A cluster by its API server. Created by `connect`."""

    def __init__(self, configuration: Any, observe: Observer, *, connections: int) -> None:
        self._configuration = configuration
        self.server = str(configuration.host)
        self._observe = observe
        self._may_write: Callable[[], bool] = lambda: True
        self._tls = kube_client.ApiClient(configuration).rest_client.ssl_context
        # Plain requests: the models, retries and proxy look-ups of the client would double their cost.
        self._session = ApiSession(self.server, self._new_session(limit=connections), self._auth_headers)
        # A separate session, so that other requests never wait for a log.
        self._log_session = ApiSession(self.server, self._new_session(), self._auth_headers)
        self.gap = asyncio.Event()

    @property
    def server_time(self) -> datetime | None:
        return self._session.server_time

    async def close(self) -> None:
        await self._session.close()
        await self._log_session.close()

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
            if api_session.describe(request.method, request.url.path, request.url.query).verb != "list":
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
            trace_configs=[api_session.trace_requests(self._observe, self._may_send)],
            headers={"User-Agent": naming.MANAGED_BY},
            proxy=self._configuration.proxy or None,
        )

    async def get(self, kind: Kind, namespace: str, name: str, *, only_metadata: bool = False) -> Body | None:
        accept = METADATA if only_metadata else JSON
        return await _if_found(self._json("GET", kind.path(namespace, name), accept=accept))

    async def list(
        self, kind: Kind, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[Body]:
        pages = self.pages(kind, namespace, label_selector=label_selector, field_selector=field_selector)
        return [body async for page, _ in pages for body in page]

    async def pages(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        accept, decoder = (METADATA_LIST, METADATA_PAGE) if only_metadata else (JSON, OBJECT_PAGE)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {"limit": str(PAGE), **selectors, "continue": ""}
        while True:
            chosen = urlencode({key: value for key, value in query.items() if value})
            raw = await self._session.request("GET", f"{kind.path(namespace)}?{chosen}", accept=accept)
            page, query["continue"] = read_page(raw, decoder)
            yield page
            if not query["continue"]:
                return

    async def create(self, kind: Kind, manifest: Manifest) -> Body:
        path = kind.path(manifest["metadata"].get("namespace", ""))
        accept = METADATA if kind in WRITTEN_ONLY else JSON
        return await self._json("POST", f"{path}?{WRITER}", manifest, accept=accept)

    async def replace(self, kind: Kind, manifest: Manifest) -> Body:
        meta = manifest["metadata"]
        path = kind.path(meta["namespace"], meta["name"])
        return await self._json("PUT", f"{path}?{WRITER}", manifest)

    async def patch_status(self, kind: Kind, body_meta: Mapping[str, Any], status: Mapping[str, Any]) -> Body | None:
        path = f"{kind.path(body_meta['namespace'], body_meta['name'])}/status"
        return await self._patch(path, {"metadata": _guard(body_meta), "status": status})

    async def patch_owners(self, kind: Kind, body_meta: Mapping[str, Any], owners: Sequence[Manifest]) -> None:
        path = kind.path(body_meta["namespace"], body_meta["name"])
        await self._patch(path, {"metadata": {**_guard(body_meta), "ownerReferences": list(owners)}}, accept=METADATA)

    async def patch_labels(self, kind: Kind, name: str, labels: Mapping[str, str | None]) -> None:
        await self._patch(kind.path(name=name), {"metadata": {"labels": labels}})

    async def _patch(self, path: str, patch: Manifest, *, accept: str = JSON) -> Body | None:
        return await _if_found(self._json("PATCH", f"{path}?{WRITER}", patch, content_type=MERGE_PATCH, accept=accept))

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str, version: str = "") -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid, **({"resourceVersion": version} if version else {})},
        }
        try:
            await _if_found(self._json("DELETE", kind.path(namespace, name), options))
        except ConflictError:
            if version:
                raise
            # Otherwise another object has the name: the one to delete no longer exists.

    async def log(self, namespace: str, pod: str, *, limit_bytes: int) -> bytes | None:
        query = urlencode({"container": naming.CONTAINER, "limitBytes": limit_bytes})
        path = f"{Kind.POD.path(namespace, pod)}/log?{query}"
        answer = self._session.request("GET", path, accept="*/*", timeout_seconds=LOG_TIMEOUT_SECONDS)
        return await _if_found(answer)

    def follow_log(
        self, namespace: str, pod: str, *, prefix: str, tail_lines: int, limit_bytes: int
    ) -> AsyncGenerator[str, None]:
        how = {"container": naming.CONTAINER, "follow": "true", "tailLines": tail_lines, "limitBytes": limit_bytes}
        path = f"{Kind.POD.path(namespace, pod)}/log?{urlencode(how)}"
        return log_streams.follow(self._log_session, path, prefix=prefix, limit_bytes=limits.FRAME_LINE_BYTES)

    async def _json(
        self, method: str, path: str, body: Manifest | None = None, *, content_type: str = JSON, accept: str = JSON
    ) -> Body:
        raw = await self._session.request(method, path, body, content_type=content_type, accept=accept)
        try:
            answer: Body = json.loads(raw)
        except ValueError as error:
            raise ApiServerError(f"{method} {path}: the response is not JSON: {error}") from error
        return answer

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
        raise ApiServerError(f"no cluster is configured: {error}; set --kubeconfig, or run in a pod") from error
    return KubernetesCluster(configuration, observe, connections=workers + OTHER_CONNECTIONS)


def _guard(body_meta: Mapping[str, Any]) -> dict[str, str]:
    return {"uid": body_meta["uid"], "resourceVersion": str(body_meta["resourceVersion"])}


async def _if_found(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except NotFoundError:
        return None
