"""A pod as processes, from binding to deletion."""

import asyncio
import ipaddress
import traceback
from asyncio.subprocess import PIPE, Process
from collections import deque
from pathlib import Path

from devcluster.controlplane.kubeapi import STRATEGIC, Json, KubeApi
from devcluster.machine import settings
from devcluster.machine.settings import BRIDGE, GATEWAY, NETWORK_BITS
from devcluster.node import container_spec, registration, status
from devcluster.node.container import Container
from devcluster.node.launch import Launch
from devcluster.node.restarting import Restarting
from devcluster.node.volumes import PodObjects, Volumes
from disttest_operator.core.api.api_errors import ApiServerError

HOLD = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--ipc", "--")
NAME_AND_WAIT = ("sh", "-c", 'hostname "$1" && echo ready && exec sleep infinity', "pause")
FIRST_POD_ADDRESS = 10


class SandboxError(Exception):
    pass


async def create_sandbox(hostname: str, address: str, link: str) -> Process:
    """Start the process that holds the pod's namespaces; with it the kernel removes them and the link."""
    process = await asyncio.create_subprocess_exec(*HOLD, *NAME_AND_WAIT, hostname, stdout=PIPE)
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
    return process


async def _succeed(*command: str, stdin: str = "") -> None:
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stderr=PIPE)
    _, errors = await process.communicate(stdin.encode())
    if process.returncode:
        raise SandboxError(f"{' '.join(command)}: {errors.decode().strip()}")


class Node:
    """A process node, as its pods use it."""

    def __init__(self, api: KubeApi, state: Path, name: str, number: int) -> None:
        wanted = settings.load(state / "settings.json")
        self.api = api
        self.name = name
        self.address = settings.node_address(number)
        self.directory = state / "nodes" / name
        self.images = {image.name: image for image in wanted.images}
        self.visible = wanted.visible()
        self.gpus = wanted.gpus
        self._free_gpus = set(range(wanted.gpus))
        subnet = ipaddress.ip_network(f"{self.address}/24", strict=False)
        self._free_addresses = deque(str(address) for address in list(subnet)[FIRST_POD_ADDRESS:-1])

    def take_address(self) -> str:
        return self._free_addresses.popleft()

    def return_address(self, address: str) -> None:
        self._free_addresses.append(address)  # last, so that an old connection does not reach a new pod

    def take_gpus(self, spec: Json) -> list[int]:
        limits = [(container.get("resources") or {}).get("limits") or {} for container in spec["containers"]]
        wanted = sum(int(limit.get(registration.GPU, 0)) for limit in limits)
        if wanted > len(self._free_gpus):
            raise LookupError(f"requested {wanted} {registration.GPU}, {len(self._free_gpus)} are free on {self.name}")
        taken = sorted(self._free_gpus)[:wanted]
        self._free_gpus.difference_update(taken)
        return taken

    def return_gpus(self, gpus: list[int]) -> None:
        self._free_gpus.update(gpus)


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
        self._sandbox: Process | None = None
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
        policy = self._spec.get("restartPolicy", "Always")
        stopping, failed = self._stopping.is_set(), bool(self._failure)
        phase = status.phase(self.main, self.init, restart_policy=policy, stopping=stopping, failed=failed)
        has_sandbox = self._sandbox is not None and self._sandbox.returncode is None
        self._conditions.set_all(phase, self.main, self.init, sandbox=has_sandbox)
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
            await self._node.api.insist("PATCH", f"{self._path}/status", body, content_type=STRATEGIC)

    async def record(self, reason: str, message: str) -> None:
        """Record an Event; it is only for people, so a failure is printed."""
        time, names = status.now(), {"namespace": self.namespace, "name": self.name, "uid": self.uid}
        event = {
            "metadata": {"generateName": f"{self.name}.", "namespace": self.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **names},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node.name},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
        try:
            await self._node.api.request("POST", f"/api/v1/namespaces/{self.namespace}/events", event)
        except ApiServerError as error:
            print(f"event {reason}: {error}", flush=True)

    # From admission to end

    async def _live(self) -> None:
        try:
            self._admit()
            await self.report()
            self._address = self._node.take_address()
            link = "v" + self.uid.replace("-", "")[:12]
            self._sandbox = await create_sandbox(self._hostname, self._address, link)
            await self._work(self._sandbox.pid)
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

    async def _work(self, sandbox: int) -> None:
        work = asyncio.create_task(self._run_containers(sandbox))
        finished, _ = await asyncio.wait([work], timeout=self._spec.get("activeDeadlineSeconds"))
        if not finished:
            message = "Pod was active on the node longer than the specified deadline"
            self._failure = {"reason": "DeadlineExceeded", "message": message}
            await self._stop(self._spec["terminationGracePeriodSeconds"])
        await work

    async def _clean_up(self) -> None:
        if self._sandbox is not None:
            if self._sandbox.returncode is None:
                self._sandbox.kill()
            await self._sandbox.wait()
        if self._address:
            self._node.return_address(self._address)
        self._node.return_gpus(self._gpus)
        if not any(container.exit_code for container in self.init):  # else they wait for ever, as with the kubelet
            for container in self.main:
                container.finish_unstarted()

    async def _run_containers(self, sandbox: int) -> None:
        known = {"status.podIP": self._address, "status.podIPs": self._address}
        known |= {"status.hostIP": self._node.address, "status.hostIPs": self._node.address}
        objects = PodObjects(self._node.api, self._manifest)
        volumes = Volumes(self._manifest, self.directory / "volumes", known, objects)
        place = self._place(sandbox)

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

    def _place(self, sandbox: int) -> container_spec.PodPlace:
        return container_spec.PodPlace(
            namespace=self.namespace,
            hostname=self._hostname,
            subdomain=self._spec.get("subdomain") or "",
            address=self._address,
            sandbox=sandbox,
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
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        await self._node.api.insist("DELETE", self._path, options)
