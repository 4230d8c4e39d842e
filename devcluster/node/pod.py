"""A pod as processes: its life from binding to deletion."""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

from devcluster.kubeapi import Json, KubeApi
from devcluster.node import environment, refusals, sandbox, starting, status
from devcluster.node.container import Container
from devcluster.node.launch import Launch
from devcluster.node.objects import MissingError, Objects
from devcluster.node.volumes import Volumes
from devcluster.settings import Image

RESTART_SECONDS = (0, 10, 20, 40, 80, 160, 300)
LOOK_AGAIN_SECONDS = 1  # for a ConfigMap or Secret that is not there
PULL_BACK_OFF_SECONDS = 1
T = TypeVar("T")


class Node(Protocol):
    """What a pod needs of its node."""

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
        self._sandbox: sandbox.Sandbox | None = None
        self._hostname = starting.hostname(self.name, self._spec)
        self._address = ""
        self._gpus: list[int] = []
        self._started_at = status.now()
        self._stopping = asyncio.Event()
        self._failure: dict[str, str] = {}  # reason and message of the pod itself
        self._conditions = status.Conditions()
        self._reporting = asyncio.Lock()
        self._grace_seconds: float | None = None  # of the deletion that is under way
        self._deletions: list[asyncio.Task[None]] = []
        self.done = asyncio.create_task(self._live())

    def _container(self, spec: Json) -> Container:
        grace = float(self._spec.get("terminationGracePeriodSeconds", 30))
        return Container(spec, self.uid, self.directory, grace, self)

    # What the API sees

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

    # Its life

    async def _live(self) -> None:
        try:
            self._admit()
            await self.report()
            self._address = self._node.take_address()
            link = "v" + self.uid.replace("-", "")[:12]
            self._sandbox = await sandbox.create(self._hostname, self._address, link)
            await self._work()
        except PodFailedError as error:
            self._failure = self._failure or {"reason": error.reason, "message": str(error)}
        except Exception as error:  # noqa: BLE001 - whatever it is, a pod that says so is better than one that hangs
            traceback.print_exc()
            self._failure = self._failure or {"reason": type(error).__name__, "message": str(error)}
        finally:
            await self._clean_up()
            await self.report()

    def _admit(self) -> None:
        if self._lost:
            raise PodFailedError("NodeLost", "the process node restarted; the processes of this pod are gone")
        if unsupported := refusals.of_pod(self._spec):
            raise PodFailedError(refusals.REASON, f"a process node does not emulate: {'; '.join(unsupported)}")
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
        for container in self.main:
            container.finish_unstarted()

    async def _run_containers(self) -> None:
        known = {"status.podIP": self._address, "status.podIPs": self._address}
        known |= {"status.hostIP": self._node.address, "status.hostIPs": self._node.address}
        objects = Objects(self._node.api, self._manifest)
        volumes = Volumes(self._manifest, self.directory / "volumes", known, objects)
        place = self._place()

        async def make_launch(container: Container) -> Launch:
            spec, message_file = container.spec, container.message
            base = starting.base_environment(place, self._node.images[spec["image"]])
            env = await environment.build(self._manifest, spec, base, known, objects)
            root = message_file.with_name(f"root-{container.restarts}")
            return starting.launch(place, spec, env, volumes.mounts(spec), root=root, message_file=message_file)

        try:
            await self._until_found(volumes.create, lambda why: self.record("FailedMount", why))
            for container in self.init:
                await self._keep_running(container, make_launch, restart_always="OnFailure")
                if container.exit_code != 0:
                    return
            await asyncio.gather(*(self._keep_running(container, make_launch) for container in self.main))
        finally:
            volumes.remove()

    def _place(self) -> starting.Place:
        if self._sandbox is None:
            raise sandbox.SandboxError("the pod's namespaces are gone")
        return starting.Place(
            namespace=self.namespace,
            hostname=self._hostname,
            subdomain=self._spec.get("subdomain") or "",
            address=self._address,
            sandbox=self._sandbox.pid,
            gpus=tuple(self._gpus),
            visible=self._node.visible,
        )

    async def _until_found(self, use: Callable[[], Awaitable[T]], tell: Callable[[str], Awaitable[None]]) -> T | None:
        """Like the kubelet: a pod whose ConfigMap is missing does not fail, it waits for it (without an end)."""
        told = ""
        while not self._stopping.is_set():
            try:
                return await use()
            except MissingError as error:
                if str(error) != told:
                    told = str(error)
                    await tell(told)
                await self._pause(LOOK_AGAIN_SECONDS)
        return None

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _keep_running(
        self,
        container: Container,
        make_launch: Callable[[Container], Awaitable[Launch]],
        restart_always: str = "Always",
    ) -> None:
        policy = self._spec.get("restartPolicy", "Always")
        policy = restart_always if policy == "Always" else policy
        if container.spec["image"] not in self._node.images:
            await self._never_pull(container)
            return

        async def tell(why: str) -> None:
            container.wait_for("CreateContainerConfigError", why)
            await self.report()

        while not self._stopping.is_set():
            launch = await self._until_found(lambda: make_launch(container), tell)
            if launch is None or self._stopping.is_set():  # no await from here to the start: nobody would end it
                return
            await container.run(launch, self._address)
            if policy == "Never" or (policy == "OnFailure" and container.exit_code == 0):
                return
            await self._back_off(container)

    async def _back_off(self, container: Container) -> None:
        if self._stopping.is_set():
            return
        ended = container.last_state = container.state
        seconds = RESTART_SECONDS[min(container.restarts, len(RESTART_SECONDS) - 1)]
        container.restarts += 1
        if seconds:
            message = f"back-off {seconds}s restarting failed container={container.name} pod={self.name}"
            container.wait_for("CrashLoopBackOff", message)
            await self.report()
            await self.record("BackOff", message)
            await self._pause(seconds)
            if self._stopping.is_set():
                container.state = ended

    async def _never_pull(self, container: Container) -> None:
        image = container.spec["image"]
        if container.spec.get("imagePullPolicy") == "Never":
            container.wait_for(
                "ErrImageNeverPull", f'Container image "{image}" is not present with pull policy of Never'
            )
        else:
            container.wait_for("ErrImagePull", f'failed to pull and unpack image "{image}": not found')
            await self.report()
            await self.record("Failed", f'Failed to pull image "{image}": not found')
            await self._pause(PULL_BACK_OFF_SECONDS)
            container.wait_for("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: not found')
        await self.report()
        await self._stopping.wait()

    # Its end

    async def _stop(self, grace_seconds: float) -> None:
        self._stopping.set()
        await asyncio.gather(*(container.stop(grace_seconds) for container in [*self.init, *self.main]))

    def delete(self, grace_seconds: float) -> None:
        """Ends the pod; a second call can only shorten the grace period."""
        if self._grace_seconds is None or grace_seconds < self._grace_seconds:
            self._grace_seconds = grace_seconds
            self._deletions.append(asyncio.create_task(self._delete(grace_seconds)))

    async def _delete(self, grace_seconds: float) -> None:
        await self._stop(grace_seconds)
        await self.done
        await self._node.delete_from_api(self._path, self.uid)
