"""Container logs, for `kubectl logs`: HTTPS, for the API server only."""

import asyncio
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from aiohttp import web

from devcluster.machine.settings import KUBELET_PORT
from devcluster.node.container import Container, ContainerRun

POLL_SECONDS = 0.05
CHUNK_BYTES = 1 << 16
NOT_EMULATED = ("timestamps", "sinceSeconds", "sinceTime")

Find = Callable[[str, str, str], Container | None]
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serve(address: str, pki: Path, find: Find) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        wanted = request.match_info
        return await _answer(request, find(wanted["namespace"], wanted["pod"], wanted["container"]))

    await listen(address, KUBELET_PORT, pki, answer)


async def listen(address: str, port: int, pki: Path, answer: Answer) -> None:
    """Start an HTTPS server that lets the API server ask for the log of a container."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki / "ca.crt"))
    tls.load_cert_chain(pki / "node.crt", pki / "node.key")
    tls.verify_mode = ssl.CERT_REQUIRED  # only the API server has a client certificate of this authority
    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port, ssl_context=tls).start()


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
    tail, limit_bytes = query.get("tailLines"), int(query.get("limitBytes") or sys.maxsize)
    run = container.runs[-back]
    with run.log.open("rb") as log:
        if tail is not None:
            _skip_to_tail(log, int(tail))
        await _send(response, log, run, limit_bytes=limit_bytes, follow=query.get("follow") == "true")
    return response


async def _send(
    response: web.StreamResponse, log: BinaryIO, run: ContainerRun, *, limit_bytes: int, follow: bool
) -> None:
    while True:
        is_last = not follow or run.ended.is_set()  # asked before reading: later output is read once more
        while chunk := log.read(min(CHUNK_BYTES, limit_bytes)):
            await response.write(chunk)
            limit_bytes -= len(chunk)
        if is_last or not limit_bytes:
            return
        await asyncio.sleep(POLL_SECONDS)


def _skip_to_tail(log: BinaryIO, lines: int) -> None:
    """Read the whole log for that: it is small."""
    content = log.readlines()
    kept = content[max(0, len(content) - lines) :]
    log.seek(sum(map(len, content)) - sum(map(len, kept)))
