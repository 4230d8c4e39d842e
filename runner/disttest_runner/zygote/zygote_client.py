"""The agent's side of the zygotes: starts them, has them fork ranks, and is notified when ranks exit."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_runner.cases import preload, rank_orders
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.compat import override
from disttest_runner.linux import processes, resource_limits
from disttest_runner.protocol.wire import LineProtocol, Message, pack, unpack

PROGRAM = "disttest_runner.zygote.zygote"
HERE = Path(__file__).parents[2]  # where this package was found

# Read when modules are imported, so they must be set before the zygote starts.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a pool of threads does not survive a fork
    "OPENBLAS_NUM_THREADS": "1",  # numpy starts a thread at import otherwise
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # "is there a GPU" without starting the driver, which a fork does not survive
    "TORCH_WARM_POOL": "0",  # older versions start processes to compile in, and a thread, when Inductor is imported
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",  # large pages: forking a rank and ending it take a third less
    "PYTHONHASHSEED": "0",  # sets iterate alike in all ranks, which must collect the same cases
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a plugin that reorders or reruns cases would break the lock-step
}


@dataclass(slots=True)
class ZygoteProcess:
    process: subprocess.Popen[bytes]
    control: socket.socket
    output: int  # the reading end of a pipe


class ZygoteEndedError(Exception):
    """The zygote ended before it had imported everything; its output shows why."""


def start_zygote(modules: tuple[str, ...], own: Mapping[str, str]) -> ZygoteProcess:
    """`own` is the suite's environment. The nonce is removed, since ranks inherit this environment."""
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    environ = {name: value for name, value in os.environ.items() if name != environment.NONCE}
    environ = {**ENVIRONMENT, **environ, **found_by_children(own, os.environ.get("PYTHONPATH", ""))}
    arguments = [str(theirs.fileno()), str(os.getpid()), *preload.ALWAYS, *modules]
    process = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, *arguments],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        env=environ,
    )
    resource_limits.lower_limit(process.pid)
    theirs.close()
    os.close(writing)
    ours.setblocking(False)
    return ZygoteProcess(process, ours, reading)


def found_by_children(own: Mapping[str, str], path: str, here: Path = HERE) -> dict[str, str]:
    """Return `own`, with `here` first on its PYTHONPATH if the runner was found through the PYTHONPATH it replaces."""
    if "PYTHONPATH" not in own or str(here) not in path.split(os.pathsep):
        return dict(own)
    return {**own, "PYTHONPATH": f"{here}{os.pathsep}{own['PYTHONPATH']}"}


@dataclass(slots=True)
class ZygoteEvents:
    warm: Callable[[Message], None]
    exited: Callable[[int, int], None]  # rank, status
    lost: Callable[["ZygoteClient"], None]  # a zygote that was warm is gone, and its ranks with it
    output: Callable[[str, bytes], None]  # source, line


@dataclass(slots=True)
class ZygoteClient:
    """Forks one rank at a time: the kernel limits descriptors in flight, and a fork takes milliseconds."""

    zygote: ZygoteProcess
    events: ZygoteEvents
    is_ending: bool = False  # the agent ends it
    is_lost: bool = False
    warm: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _lines: LineProtocol | None = None
    _forked: dict[int, asyncio.Future[int]] = field(default_factory=dict)

    async def attach(self) -> None:
        loop = asyncio.get_running_loop()
        _, self._lines = await loop.create_connection(
            lambda: LineProtocol(self._on_line, self._on_lost), sock=self.zygote.control
        )
        await read_lines(self.zygote.output, lambda line: self.events.output("zygote", line))

    async def fork(self, order: RankOrder, descriptors: list[int]) -> int:
        """Return the pid. The caller closes the descriptors."""
        forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._forked[order.rank] = forked
        message = {"op": "fork", "order": order.to_json(), "descriptors": len(descriptors)}
        socket.send_fds(self.zygote.control, [pack(message)], descriptors)
        return await forked

    def preload(self, modules: tuple[str, ...]) -> None:
        if modules and self._lines is not None:
            self._lines.send({"op": "preload", "modules": modules})

    def end(self) -> None:
        self.is_ending = True
        self.zygote.process.kill()

    def _on_line(self, _: LineProtocol, raw: bytes) -> None:
        message = unpack(raw)
        match message["op"]:
            case "warm" | "preloaded":
                if message["unsafe"]:
                    note = f"ranks start in new interpreters, which takes longer: {message['unsafe']}"
                    self.events.output("zygote", note.encode())
                if message["op"] == "warm":
                    self.warm.set_result(None)
                    self.events.warm(message)
            case "forked":
                self._forked.pop(message["rank"]).set_result(message["pid"])
            case "exited":
                processes.kill_group(message["pid"])  # what it had started itself
                loop = asyncio.get_running_loop()
                # after `fork` has returned the pid
                loop.call_soon(loop.call_soon, self.events.exited, message["rank"], message["status"])
            case unknown:
                raise ValueError(f"the zygote sent {unknown!r}")

    def _on_lost(self, _: LineProtocol) -> None:
        self.is_lost = True
        if self.is_ending:
            return
        error = ZygoteEndedError(
            "the process that imports torch and starts the ranks ended. Check its output in the log"
        )
        if not self.warm.done():
            self.warm.set_exception(error)
            self.warm.exception()  # it may not be awaited yet
            return
        for forked in self._forked.values():
            forked.set_exception(error)
        self._forked.clear()
        self.events.lost(self)


async def read_lines(descriptor: int, on_line: Callable[[bytes], None]) -> None:
    """Call `on_line` for each line that is read from a pipe, and for a last one without a newline."""
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: _PipeLines(on_line), os.fdopen(descriptor, "rb", buffering=0))


class _PipeLines(asyncio.Protocol):
    LIMIT_BYTES = 64 << 10  # of a line without a newline

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line, self._rest = on_line, b""

    @override
    def data_received(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.LIMIT_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        for line in whole:
            self._on_line(line)

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._rest:
            self._on_line(self._rest)
            self._rest = b""


WARM_SHARE = 0.9  # of the time to collect: the leader should receive the reason before its deadline

Key = tuple[tuple[str, str], ...]


def environment_key(environment: Mapping[str, str]) -> Key:
    """Equal for suites that can share a zygote."""
    return tuple(sorted(environment.items()))


class ZygotePool:
    """One zygote for each environment that suites ask for. `first` is that of the plan's first suite."""

    def __init__(self, plan: RunPlan, first: ZygoteProcess, events: ZygoteEvents) -> None:
        self._plan, self._events = plan, events
        self._keys = [environment_key(rank_orders.environment(plan, suite)) for suite in plan.suites]
        self._open: dict[Key, ZygoteClient] = {self._keys[0]: ZygoteClient(first, events)}
        self._preloaded: set[str] = set()

    async def attach(self, ended: Callable[[str], None]) -> None:
        """`ended` is called if the first zygote ends before it is warm: the image or the node is broken."""
        first = self._open[self._keys[0]]
        await first.attach()

        def on_warm(warm: asyncio.Future[None]) -> None:
            if not warm.cancelled() and (error := warm.exception()):
                ended(str(error))

        first.warm.add_done_callback(on_warm)

    async def of_suite(self, index: int) -> ZygoteClient:
        """Return a warm zygote. Raises ZygoteEndedError if it ended before it was warm."""
        wanted = self._keys[index]
        for unneeded in self._open.keys() - set(self._keys[index:]):
            self._open.pop(unneeded).end()
        client = self._open.get(wanted)
        if client is None or client.is_lost:
            client = await self._start(index)
        seconds = WARM_SHARE * max(rank_orders.MIN_COLLECT_SECONDS, self._plan.rendezvous_seconds)
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(client.warm)
        except TimeoutError:
            self._open.pop(wanted).end()
            raise ZygoteEndedError(f"the modules of the suite were not imported within {seconds:.0f} s") from None
        return client

    async def prepare_for_later(self, index: int) -> None:
        """Import what later suites need while this suite's cases run."""
        later = self._plan.suites[index + 1 :]
        mine = [suite for suite, one in zip(later, self._keys[index + 1 :], strict=True) if one == self._keys[index]]
        modules = dict.fromkeys(module for suite in mine for module in preload.modules_of_suite(suite))
        modules = {module: None for module in modules if module not in self._preloaded}
        if modules and self._keys[index] in self._open:
            self._preloaded.update(modules)
            self._open[self._keys[index]].preload(tuple(modules))
        following = next((n for n in range(index + 1, len(self._keys)) if self._keys[n] != self._keys[index]), None)
        if following is not None and self._keys[following] not in self._open:
            await self._start(following)

    async def _start(self, index: int) -> ZygoteClient:
        suite = self._plan.suites[index]
        zygote = start_zygote(preload.modules_of_suite(suite), rank_orders.environment(self._plan, suite))
        client = self._open[self._keys[index]] = ZygoteClient(zygote, self._events)
        await client.attach()
        return client

    def end(self) -> None:
        for zygote in self._open.values():
            zygote.end()
