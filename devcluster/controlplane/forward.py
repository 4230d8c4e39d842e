"""Forwards a socket of the host's network into the cluster's network.

A socket stays in the network where it was made. So `up` opens one on the host's 127.0.0.1 before it enters the
namespaces, and this program, which inherits it, accepts there and connects here. TLS stays end to end.

`python -m devcluster.controlplane.forward DESCRIPTOR [HOST PORT]`; without the latter to the API server.
"""

import asyncio
import contextlib
import socket
import sys

from devcluster.machine.settings import API_PORT, GATEWAY

CHUNK_BYTES = 1 << 16


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def _serve(descriptor: int, host: str = GATEWAY, port: str = str(API_PORT)) -> None:
    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(host, int(port))
        except OSError:  # not listening: the client sees a closed connection
            writer.close()
            return
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    server = await asyncio.start_server(connect, sock=socket.socket(fileno=descriptor))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), *sys.argv[2:]))
