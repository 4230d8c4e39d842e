"""One container of a pod, through all its restarts."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from devcluster.controlplane.kubeapi import Json
from devcluster.machine.processes import children
from devcluster.machine.settings import REPOSITORY
from devcluster.node import downward_api, probes
from devcluster.node.launch import Launch
from devcluster.node.status import ContainerState, now

MESSAGE_BYTES = 4096
FALLBACK_BYTES, FALLBACK_LINES = 2048, 80  # of the log, with terminationMessagePolicy FallbackToLogsOnError
LAUNCH = (
    sys.executable,
    "-S",
    "-s",
    "-m",
    "devcluster.node.launch",
)  # -S, -s: it needs no site-packages and starts faster
KILL_AGAIN_SECONDS = 0.2
MEMORY_SECONDS = 0.2  # between two checks of a memory limit


class ContainerObserver(Protocol):
    """What a container calls in its pod."""

    async def report(self) -> None: ...
    async def record(self, reason: str, message: str) -> None: ...


@dataclass(slots=True)
class ContainerRun:
    """One run of the container's process."""

    log: Path
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Container(ContainerState):
    def __init__(self, spec: Json, uid: str, directory: Path, grace_seconds: float, pod: ContainerObserver) -> None:
        super().__init__(state={"waiting": {"reason": "ContainerCreating"}})
        self.spec = spec
        self.name: str = spec["name"]
        self._uid = uid
        self._grace_seconds = grace_seconds
        self._pod = pod
        self._directory = directory / "containers" / self.name
        self._directory.mkdir(parents=True)
        self.message = self._directory / "termination-log"
        self.runs: list[ContainerRun] = []
        self.last_state: Json = {}
        self._started = self._out_of_memory = False
        self.is_done = False  # an init container that did its work: ready, as the kubelet calls it
        self._last_signal: int | None = None  # sent before the process existed
        self._pid: int | None = None  # of the container's PID 1, seen from the node

    def status(self) -> Json:
        has_run = bool(self.runs)
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": f"process://{self.spec['image']}" if has_run else "",
            "containerID": self._id if has_run else "",
            "ready": self.ready or self.is_done,
            "started": self._started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }

    @property
    def _id(self) -> str:
        return f"process://{self._uid}-{self.name}-{self.restarts}"

    def wait_for(self, reason: str, message: str = "") -> None:
        self.state = {"waiting": {"reason": reason, "message": message}}

    def finish_unstarted(self) -> None:
        """Report a container that never started as the kubelet does: a finished pod has no waiting containers."""
        if self.exit_code is None:
            message = "The container could not be located when the pod was terminated"
            self.state = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}}

    # One run

    async def run(self, launch: Launch, address: str) -> None:
        """Run the command once, until self.state is terminated."""
        run = ContainerRun(self._directory / f"log-{self.restarts}")
        self.runs.append(run)
        self._last_signal = None
        try:
            await self._run(launch, address, run)
        finally:
            self._pid = None
            self.ready = self._started = False
            run.ended.set()

    async def _run(self, launch: Launch, address: str, run: ContainerRun) -> None:
        self.message.write_bytes(b"")
        self._out_of_memory = False
        launch_file = self._directory / "launch.json"
        launch.prepare(launch_file)
        started_at = now()
        control_read, control_write = os.pipe()
        with run.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *LAUNCH, str(launch_file), str(control_write),
                env={"PYTHONPATH": str(REPOSITORY)},
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[control_write],
            )  # fmt: skip
        os.close(control_write)
        failure = await self._follow_start(control_read)
        watchers = [] if failure else self._watch(address)
        if not failure:
            self.state = {"running": {"startedAt": started_at}}
            await self._pod.report()
            if self._last_signal is not None:
                self.signal(self._last_signal)
        code = await process.wait()
        for watcher in watchers:
            watcher.cancel()
        self.state = {"terminated": {**self._end(code, failure), "startedAt": started_at, "finishedAt": now()}}

    async def _follow_start(self, control: int) -> str:
        """Return why the command could not be executed; empty if it runs."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(control, "rb")
        )
        failure = ""
        async for line in reader:
            event = json.loads(line)
            self._pid = event.get("pid", self._pid)
            failure = event.get("error", failure)
        transport.close()
        return failure

    def _end(self, code: int, failure: str) -> Json:
        reason = "Error" if code else "Completed"
        if failure:
            reason = "StartError"
        elif self._out_of_memory:
            reason = "OOMKilled"
        message = failure or self._termination_message(code)
        return {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": reason,
            "message": message,
            "containerID": self._id,
        }

    def _termination_message(self, code: int) -> str:
        message: bytes = self.message.read_bytes()[-MESSAGE_BYTES:]
        if not message and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            log = self.runs[-1].log.read_bytes()[-FALLBACK_BYTES:]
            message = b"".join(log.splitlines(keepends=True)[-FALLBACK_LINES:])
        return message.decode(errors="replace")

    def signal(self, number: int) -> None:
        """Signal PID 1 only, as container runtimes do; its death ends every process of the container."""
        self._last_signal = number
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, then SIGKILL after the grace period, to the current run only."""
        number, patience = signal.SIGTERM, grace_seconds
        run = self.runs[-1] if self.runs else None
        while run is not None and not run.ended.is_set():
            self.signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(run.ended.wait(), patience)
            number, patience = signal.SIGKILL, KILL_AGAIN_SECONDS

    # Probes and the memory limit

    def _watch(self, address: str) -> list[asyncio.Task[None]]:
        self._started = not self.spec.get("startupProbe")
        self.ready = self._started and not self.spec.get("readinessProbe")
        watchers = [self._watch_probes(address)]
        if limit := ((self.spec.get("resources") or {}).get("limits") or {}).get("memory"):
            watchers.append(self._watch_memory(downward_api.parse_quantity(limit)))
        return [asyncio.create_task(watcher) for watcher in watchers]

    async def _watch_memory(self, limit_bytes: int) -> None:
        if self._pid is not None:
            used = await memory_above(self._pid, limit_bytes)
            self._out_of_memory = True
            print(f"{self._id}: uses {used} bytes, limit {limit_bytes}: killed", flush=True)
            self.signal(signal.SIGKILL)

    async def _watch_probes(self, address: str) -> None:
        if spec := self.spec.get("startupProbe"):
            await self._until_started(spec, address)
        watched = [("readinessProbe", self._set_ready), ("livenessProbe", self._end_if_dead)]
        await asyncio.gather(*(self._follow(kind, use, address) for kind, use in watched if self.spec.get(kind)))

    async def _until_started(self, spec: Json, address: str) -> None:
        async for good, why in probes.results(probes.parse(spec, self.spec, address)):
            if good:
                self._started, self.ready = True, not self.spec.get("readinessProbe")
                await self._pod.report()
                return
            await self._end_if_dead(why, good=False)

    async def _follow(self, kind: str, use: Callable[..., Awaitable[None]], address: str) -> None:
        async for good, why in probes.results(probes.parse(self.spec[kind], self.spec, address)):
            await use(why, good=good)

    async def _set_ready(self, why: str, *, good: bool) -> None:
        if good != self.ready:
            self.ready = good
            await self._pod.report()
        if not good:
            await self._pod.record("Unhealthy", f"Readiness probe failed: {why}")

    async def _end_if_dead(self, why: str, *, good: bool) -> None:
        if not good:
            await self._pod.record(
                "Unhealthy", f"Liveness or startup probe failed, container {self.name} will be killed: {why}"
            )
            await asyncio.shield(self.stop(self._grace_seconds))


async def memory_above(first_process: int, limit_bytes: int) -> int:
    """Return the bytes of the container's processes as soon as they exceed the limit.

    An ordinary user has no cgroup to set, so this polls. Shared pages count in part, files on a tmpfs do not.
    """
    while True:
        # The estimate counts a shared page once for each process; the exact sum costs far more, so it comes second.
        pids = _descendants(first_process)
        if (
            sum(_estimated_bytes(pid) for pid in pids) > limit_bytes
            and (used := sum(_exact_bytes(pid) for pid in pids)) > limit_bytes
        ):
            return used
        await asyncio.sleep(MEMORY_SECONDS)


def _descendants(pid: int) -> list[int]:
    """List a process and its descendants. Orphans become children of the container's first process, so none escapes."""
    found = [pid]
    for number in found:
        found += children(number)
    return found


def _estimated_bytes(pid: int) -> int:
    return _sum_bytes(Path(f"/proc/{pid}/status"), ("RssAnon:", "RssShmem:"))


def _exact_bytes(pid: int) -> int:
    return _sum_bytes(Path(f"/proc/{pid}/smaps_rollup"), ("Pss_Anon:", "Pss_Shmem:"))


def _sum_bytes(file: Path, names: tuple[str, ...]) -> int:
    try:
        lines = file.read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(names))
