"""Runs the containers of a pod again and again, as its restart policy wants, until the pod is to stop."""

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
LOOK_AGAIN_SECONDS = 1  # for a ConfigMap or Secret that is not there
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
    make_launch: MakeLaunch  # anew for each life: a ConfigMap may have come or changed
    address: str

    async def until_found(self, use: Callable[[], Awaitable[T]], tell: Callable[[str], Awaitable[None]]) -> T | None:
        """Like the kubelet: a pod whose ConfigMap is missing does not fail, it waits for it (without an end)."""
        told = ""
        while not self.stopping.is_set():
            try:
                return await use()
            except MissingObjectError as error:
                if str(error) != told:
                    told = str(error)
                    await tell(told)
                await self._pause(LOOK_AGAIN_SECONDS)
        return None

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def keep_running(self, container: Container, policy: str) -> None:
        if container.spec["image"] not in self.images:
            await self._never_pull(container)
            return

        async def tell(why: str) -> None:
            container.wait_for("CreateContainerConfigError", why)
            await self.pod.report()

        while not self.stopping.is_set():
            launch = await self.until_found(lambda: self.make_launch(container), tell)
            if launch is None or self.stopping.is_set():  # no await from here to the start: nobody would end it
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
