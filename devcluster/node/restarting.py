"""Runs the containers of a pod by its restart policy until the pod is stopped."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from devcluster.node.container import Container, ContainerObserver
from devcluster.node.launch import Launch
from devcluster.node.volumes import MissingObjectError

RESTART_SECONDS = (0, 10, 20, 40, 80, 160, 300)
RETRY_SECONDS = 1  # while a ConfigMap or Secret is missing
PULL_BACK_OFF_SECONDS = 1
REFERENCE = re.compile(  # registry/path:tag@digest; everything but the registry and the tag is in lower case
    r"([A-Za-z0-9][A-Za-z0-9.-]*(:\d+)?/)?[a-z0-9]+((\.|_|__|-+|/)[a-z0-9]+)*(:\w[\w.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
T = TypeVar("T")
MakeLaunch = Callable[[Container], Awaitable[Launch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    pod: ContainerObserver
    stopping: asyncio.Event
    images: Collection[str]
    make_launch: MakeLaunch  # called for each run: a ConfigMap may have changed
    address: str

    async def until_found(self, use: Callable[[], Awaitable[T]], record: Callable[[str], Awaitable[None]]) -> T | None:
        """Retry while an object is missing, without a limit, as the kubelet does."""
        recorded = ""
        while not self.stopping.is_set():
            try:
                return await use()
            except MissingObjectError as error:
                if str(error) != recorded:
                    recorded = str(error)
                    await record(recorded)
                await self._pause(RETRY_SECONDS)
        return None

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def keep_running(self, container: Container, policy: str) -> None:
        if container.spec["image"] not in self.images:
            await self._never_pull(container)
            return

        async def record(why: str) -> None:
            container.wait_for("CreateContainerConfigError", why)
            await self.pod.report()

        while not self.stopping.is_set():
            launch = await self.until_found(lambda: self.make_launch(container), record)
            if launch is None or self.stopping.is_set():  # no await from here to the start: a stop would be lost
                return
            await container.run(launch, self.address)
            if policy == "Never" or (policy == "OnFailure" and container.exit_code == 0):
                return
            await self._back_off(container)

    async def _back_off(self, container: Container) -> None:
        if self.stopping.is_set():
            return
        ended = container.last_state = container.state
        seconds = RESTART_SECONDS[min(container.restarts, len(RESTART_SECONDS) - 1)]
        container.restarts += 1
        if seconds:
            message = f"back-off {seconds}s restarting failed container={container.name}"
            container.wait_for("CrashLoopBackOff", message)
            await self.pod.report()
            await self.pod.record("BackOff", message)
            await self._pause(seconds)
            if self.stopping.is_set():
                container.state = ended

    async def _never_pull(self, container: Container) -> None:
        image = container.spec["image"]
        if not REFERENCE.fullmatch(image):
            container.wait_for("InvalidImageName", f'couldn\'t parse image name "{image}": invalid reference format')
        elif container.spec.get("imagePullPolicy") == "Never":
            message = f'Container image "{image}" is not present with pull policy of Never'
            container.wait_for("ErrImageNeverPull", message)
        else:
            container.wait_for("ErrImagePull", f'failed to pull and unpack image "{image}": not found')
            await self.pod.report()
            await self.pod.record("Failed", f'Failed to pull image "{image}": not found')
            await self._pause(PULL_BACK_OFF_SECONDS)
            container.wait_for("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: not found')
        await self.pod.report()
        await self.stopping.wait()
