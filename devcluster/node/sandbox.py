"""A pod's network, UTS and IPC namespace with its address: held by one idle process, which the containers join."""

import asyncio
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass

from devcluster.network import BRIDGE, GATEWAY, NETWORK_BITS

HOLD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--ipc", "--")
NAME_AND_WAIT = ("sh", "-c", 'hostname "$1" && echo ready && exec sleep infinity', "pause")


class SandboxError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Sandbox:
    process: Process
    address: str

    @property
    def pid(self) -> int:
        return self.process.pid

    async def remove(self) -> None:
        """The kernel takes the namespaces and the link away with their last process."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def create(hostname: str, address: str, link: str) -> Sandbox:
    process = await asyncio.create_subprocess_exec(*HOLD, *NAME_AND_WAIT, hostname, stdout=PIPE)
    sandbox = Sandbox(process, address)
    if process.stdout is None or not await process.stdout.readline():
        await process.wait()
        raise SandboxError(f"no namespaces for a pod; unshare ended with {process.returncode}")
    peer = ["type", "veth", "peer", "name", "eth0", "netns", str(process.pid)]
    await _succeed("ip", "link", "add", link, "master", BRIDGE, "up", *peer)
    commands = (
        f"link set lo up\naddr add {address}/{NETWORK_BITS} dev eth0\n"
        f"link set eth0 up\nroute add default via {GATEWAY}\n"
    )
    await _succeed("nsenter", "--target", str(process.pid), "--net", "ip", "-batch", "-", stdin=commands)
    return sandbox


async def _succeed(*command: str, stdin: str = "") -> None:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stderr=PIPE)
    _, errors = await process.communicate(stdin.encode())
    if process.returncode:
        raise SandboxError(f"{' '.join(command)}: {errors.decode().strip()}")
