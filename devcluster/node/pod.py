"""A pod as processes, from binding to deletion."""

import asyncio
import traceback
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster.controlplane.kubeapi import Json, KubeApi
from devcluster.machine.settings import BRIDGE, GATEWAY, NETWORK_BITS, Image
from devcluster.node import container_spec, status
from devcluster.node.container import Container
from devcluster.node.launch import Launch
from devcluster.node.restarting import Restarting
from devcluster.node.volumes import PodObjects, Volumes

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
        """End the last process: the kernel then removes the namespaces and the link."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def create_sandbox(hostname: str, address: str, link: str) -> Sandbox:
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


class Node(Protocol):
    """The parts of a process node that a pod uses."""

    api: KubeApi
    address: str
    directory: Path
    images: dict[str, Image]
    visible: tuple[str, ...]

    def take_address(self) -> str: ...
    def return_address(self, address: str) -> None: ...
    def take_gpus(self, spec: Json) -> list[int]: ...
    def return_gpus(self, gpus: list[int]) -> None: ...
    async def patch_status(self, path: str, body: Json) -> None: ...
    async def delete_from_api(self, path: str, uid: str) -> None: ...
    async def record_event(self, pod: Json, reason: str, message: str) -> None: ...


class PodFailedError(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Pod:
    def __init__(self, node: Node, manifest: Json, *, lost: bool = False) -> None:
        self._node = node
        self._lost = lost
        self._manifest = manifest
        meta, self._spec = manifest["metadata"], manifest["spec"]
        self.namespace, self.name, self.uid = (str(meta[key]) for key in ("namespace", "name", "uid"))
        self.directory = node.directory / self.uid
        self.directory.mkdir(parents=True)
        self.init = [self._container(spec) for spec in self._spec.get("initContainers") or []]
        self.main = [self._container(spec) for spec in self._spec["containers"]]
        if self.init:
            for container in (*self.init, *self.main):
                container.wait_for("PodInitializing")
        self._sandbox: Sandbox | None = None
        self._hostname = container_spec.hostname(self.name, self._spec)
        self._address = ""
        self._gpus: list[int] = []
        self._started_at = status.now()
        self._stopping = asyncio.Event()
        self._failure: dict[str, str] = {}  # reason and message of the pod itself
        self._conditions = status.Conditions()
        if not any(one["type"] == "PodScheduled" for one in manifest.get("status", {}).get("conditions") or ()):
            self._conditions.set("PodScheduled", true=True)  # a pod that names its node has seen no scheduler
        self._reporting = asyncio.Lock()
        self._grace_seconds: float | None = None  # of the deletion that is under way
        self._deletions: list[asyncio.Task[None]] = []
        self.done = asyncio.create_task(self._live())

    def _container(self, spec: Json) -> Container:
        grace = float(self._spec.get("terminationGracePeriodSeconds", 30))
        return Container(spec, self.uid, self.directory, grace, self)

    # Status

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    def _status(self) -> Json:
        main, init = [c.view() for c in self.main], [c.view() for c in self.init]
        policy = self._spec.get("restartPolicy", "Always")
        stopping, failed = self._stopping.is_set(), bool(self._failure)
        phase = status.phase(main, init, restart_policy=policy, stopping=stopping, failed=failed)
        has_sandbox = self._sandbox is not None and self._sandbox.process.returncode is None
        status.set_all(self._conditions, phase, main, init, sandbox=has_sandbox)
        return {
            "phase": phase,
            **self._failure,
            "hostIP": self._node.address,
            "hostIPs": [{"ip": self._node.address}],
            **({"podIP": self._address, "podIPs": [{"ip": self._address}]} if self._address else {}),
            "startTime": self._started_at,
            "conditions": self._conditions.as_list(),
            "containerStatuses": [container.status() for container in self.main],
            "initContainerStatuses": [container.status() for container in self.init],
        }

    async def report(self) -> None:
        async with self._reporting:  # one at a time, each with the newest state
            body = {"metadata": {"uid": self.uid}, "status": self._status()}
            await self._node.patch_status(f"{self._path}/status", body)

    async def record(self, reason: str, message: str) -> None:
        await self._node.record_event(self._manifest, reason, message)

    # From admission to end

    async def _live(self) -> None:
        try:
            self._admit()
            await self.report()
            self._address = self._node.take_address()
            link = "v" + self.uid.replace("-", "")[:12]
            self._sandbox = await create_sandbox(self._hostname, self._address, link)
            await self._work()
        except PodFailedError as error:
            self._failure = self._failure or {"reason": error.reason, "message": str(error)}
        except Exception as error:  # noqa: BLE001 - a pod with any error must fail, not hang
            traceback.print_exc()
            self._failure = self._failure or {"reason": type(error).__name__, "message": str(error)}
        finally:
            await self._clean_up()
            await self.report()

    def _admit(self) -> None:
        if self._lost:
            raise PodFailedError("NodeLost", "the process node restarted; the processes of this pod are gone")
        if unsupported := container_spec.refusals_of_pod(self._spec):
            raise PodFailedError(
                container_spec.NOT_EMULATED, f"a process node does not emulate: {'; '.join(unsupported)}"
            )
        try:
            self._gpus = self._node.take_gpus(self._spec)
        except LookupError as error:
            raise PodFailedError("UnexpectedAdmissionError", str(error)) from error

    async def _work(self) -> None:
        work = asyncio.create_task(self._run_containers())
        finished, _ = await asyncio.wait([work], timeout=self._spec.get("activeDeadlineSeconds"))
        if not finished:
            message = "Pod was active on the node longer than the specified deadline"
            self._failure = {"reason": "DeadlineExceeded", "message": message}
            await self._stop(self._spec["terminationGracePeriodSeconds"])
        await work

    async def _clean_up(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.remove()
        if self._address:
            self._node.return_address(self._address)
        self._node.return_gpus(self._gpus)
        if not any(container.exit_code for container in self.init):  # else they wait for ever, as with the kubelet
            for container in self.main:
                container.finish_unstarted()

    async def _run_containers(self) -> None:
        known = {"status.podIP": self._address, "status.podIPs": self._address}
        known |= {"status.hostIP": self._node.address, "status.hostIPs": self._node.address}
        objects = PodObjects(self._node.api, self._manifest)
        volumes = Volumes(self._manifest, self.directory / "volumes", known, objects)
        place = self._place()

        async def make_launch(container: Container) -> Launch:
            spec, message_file = container.spec, container.message
            base = container_spec.base_environment(place, self._node.images[spec["image"]])
            env = await container_spec.build_environment(self._manifest, spec, base, known, objects)
            root = message_file.with_name(f"root-{container.restarts}")
            return container_spec.launch(place, spec, env, volumes.mounts(spec), root=root, message_file=message_file)

        lives = Restarting(
            pod=self, stopping=self._stopping, images=self._node.images, make_launch=make_launch, address=self._address
        )
        policy = self._spec.get("restartPolicy", "Always")
        try:
            await lives.until_found(volumes.create, lambda why: self.record("FailedMount", why))
            for container in self.init:
                await lives.keep_running(container, "OnFailure" if policy == "Always" else policy)
                if container.exit_code != 0:
                    return
                container.is_done = True
            await asyncio.gather(*(lives.keep_running(container, policy) for container in self.main))
        finally:
            volumes.remove()

    def _place(self) -> container_spec.PodPlace:
        if self._sandbox is None:
            raise SandboxError("the pod's namespaces are gone")
        return container_spec.PodPlace(
            namespace=self.namespace,
            hostname=self._hostname,
            subdomain=self._spec.get("subdomain") or "",
            address=self._address,
            sandbox=self._sandbox.pid,
            gpus=tuple(self._gpus),
            visible=self._node.visible,
        )

    # Deletion

    async def _stop(self, grace_seconds: float) -> None:
        self._stopping.set()
        await asyncio.gather(*(container.stop(grace_seconds) for container in [*self.init, *self.main]))

    def delete(self, grace_seconds: float) -> None:
        """End the pod; a second call can only shorten the grace period."""
        if self._grace_seconds is None or grace_seconds < self._grace_seconds:
            self._grace_seconds = grace_seconds
            self._deletions.append(asyncio.create_task(self._delete(grace_seconds)))

    async def _delete(self, grace_seconds: float) -> None:
        await self._stop(grace_seconds)
        await self.done
        await self._node.delete_from_api(self._path, self.uid)
