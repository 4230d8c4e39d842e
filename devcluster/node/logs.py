"""Container logs, for `kubectl logs`: HTTPS, for the API server only."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from aiohttp import web

from devcluster.machine.settings import KUBELET_PORT
from devcluster.node.container import Container, ContainerRun

POLL_SECONDS = 0.05
CHUNK_BYTES = 1 << 16
NOT_EMULATED = ("timestamps", "sinceSeconds", "sinceTime")

Find = Callable[[str, str, str], Container | None]


async def serve(address: str, pki: Path, find: Find) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    tls.load_cert_chain(pki / "node.crt", pki / "node.key")
    tls.verify_mode = ssl.CERT_REQUIRED  # only the API server has a client certificate of this authority
    application = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        wanted = request.match_info
        return await _answer(request, find(wanted["namespace"], wanted["pod"], wanted["container"]))

    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, KUBELET_PORT, ssl_context=tls).start()


async def _answer(request: web.Request, container: Container | None) -> web.StreamResponse:
    query = request.query
    if unknown := [name for name in NOT_EMULATED if query.get(name, "false") != "false"]:
        return web.Response(status=400, text=f"process nodes do not emulate these log options: {', '.join(unknown)}")
    if container is None:
        return web.Response(status=404, text="no such container on this node")
    back = 2 if query.get("previous") == "true" else 1
    if len(container.runs) < back:
        which = "previous terminated container" if back > 1 else "container"
        return web.Response(status=400, text=f"{which} {container.name!r} has not run: {container.state}")
    response = web.StreamResponse()
    await response.prepare(request)
    tail, limit = query.get("tailLines"), query.get("limitBytes")
    sending = _Sending(response, int(limit) if limit else None)
    run = container.runs[-back]
    with run.log.open("rb") as log:
        if tail is not None:
            _skip_to_tail(log, int(tail))
        await _send(sending, log, run, follow=query.get("follow") == "true")
    return response


@dataclass(slots=True)
class _Sending:
    response: web.StreamResponse
    limit_bytes: int | None

    async def write(self, data: bytes) -> None:
        if self.limit_bytes is not None:
            data = data[: self.limit_bytes]
            self.limit_bytes -= len(data)
        await self.response.write(data)

    @property
    def is_full(self) -> bool:
        return self.limit_bytes == 0


async def _send(sending: _Sending, log: BinaryIO, run: ContainerRun, *, follow: bool) -> None:
    while True:
        last_look = not follow or run.ended.is_set()  # asked before reading: what comes later is read once more
        while not sending.is_full and (chunk := log.read(CHUNK_BYTES)):
            await sending.write(chunk)
        if last_look or sending.is_full:
            return
        await asyncio.sleep(POLL_SECONDS)


def _skip_to_tail(log: BinaryIO, lines: int) -> None:
    """The whole log is read for that: it is small, or it would not survive on a real node either."""
    content = log.readlines()
    kept = content[max(0, len(content) - lines) :]
    log.seek(sum(map(len, content)) - sum(map(len, kept)))
