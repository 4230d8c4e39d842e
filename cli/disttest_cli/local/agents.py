"""Run a gang on this machine: one agent process per node, over loopback, with a shared cache of torch's inductor."""

import asyncio
import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_contract.results.report import InvalidReportError, Report
from disttest_contract.transport import frames
from disttest_contract.transport.progress import Progress

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
LIMIT_BYTES = 1 << 30  # compiled suites use 2 MB on the CPU; models and GPUs far more


@contextlib.contextmanager
def inductor_folder(environ: Mapping[str, str], temporary: Path, *, limit_bytes: int = LIMIT_BYTES) -> Iterator[str]:
    """The configured cache, else one in the user's cache folder; if that is not writable, a temporary folder."""
    if own := environ.get(VARIABLE):
        yield own
        return
    kept = inductor_in_user_cache(environ)
    try:
        lock = _opened(kept) if kept else None
    except OSError:
        lock = None
    if kept is None or lock is None:
        yield str(temporary / "inductor")
        return
    try:
        _limit(kept, lock, limit_bytes)
        fcntl.flock(lock, fcntl.LOCK_SH)  # until this process ends
        yield str(kept)
    finally:
        os.close(lock)


def inductor_in_user_cache(environ: Mapping[str, str]) -> Path | None:
    """The folder by the XDG base directories, in which relative paths do not count."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(environ.get("HOME", ""), ".cache")
    return base / "disttest" / "inductor" if base.is_absolute() else None


def _opened(kept: Path) -> int | None:
    kept.mkdir(parents=True, exist_ok=True)
    return os.open(kept, os.O_RDONLY | os.O_DIRECTORY) if os.access(kept, os.W_OK) else None


def _limit(kept: Path, lock: int, limit_bytes: int) -> None:
    """Empty the cache if it exceeds the limit and no other run uses it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    sizes = (Path(place, name).lstat().st_size for place, _, names in os.walk(kept) for name in names)
    if sum(sizes) > limit_bytes:
        for entry in kept.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


LOOPBACK = "127.0.0.1"
LINE_BYTES = 1 << 20
STOP_SECONDS = 10  # for agents that were terminated
QUIT_SECONDS = 1  # for agents that were ended at once
INTERRUPTED = (
    "warning: interrupted; the running case is diagnosed, which takes seconds. To stop immediately, press Ctrl-C again."
)
OTHERS_SECONDS = 30  # for the other agents, after the leader's end


@dataclass(slots=True)
class LocalRun:
    """The result. `report` is None if the leader sent none; `problem` is the reason."""

    exit_code: int
    report: Report | None = None
    problem: str = ""
    is_interrupted: bool = False
    quit_by: int = 0  # the second signal, which killed the agents


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReader:
    """Callbacks for lines of the agents and for the leader's progress."""

    line: Callable[[str], None]
    progress: Callable[[Progress], None] = lambda _: None


async def run(plan: RunPlan, reader: AgentReader, *, environ: Mapping[str, str]) -> LocalRun:
    """Start the agents and return when all have ended.

    The first SIGINT or SIGTERM ends the run with a report; the second one kills all agents.
    """
    nonce = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="disttest-") as folder,
        inductor_folder(environ, Path(folder)) as cache,
    ):
        own = {environment.LOG_IS_KEPT: "no", "TMPDIR": folder, VARIABLE: cache}
        leader = f"{LOOPBACK}:{free_port()}"
        agents: list[asyncio.subprocess.Process] = []
        signals = Signals(agents, reader)
        signals.listen()
        try:
            for index in range(plan.nodes):
                variables = agent_environment(plan, index, nonce=nonce, leader=leader, folder=Path(folder))
                agents.append(await _start(own | variables, environ))
            signals.repeat()
            return await _follow(agents, nonce, reader, signals)
        finally:
            await _stop(agents)


def agent_environment(plan: RunPlan, index: int, *, nonce: str, leader: str, folder: Path) -> dict[str, str]:
    """Environment of an agent, which the pod template sets in a cluster."""
    return {
        environment.PLAN: plan.to_json(),
        environment.NONCE: nonce,
        environment.NODE_INDEX: str(index),
        environment.NODE_NAME: f"local-{index}",
        environment.POD_NAME: f"{plan.name}-{index}",
        environment.POD_UID: f"local-{index}",
        environment.LEADER: leader,
        environment.TERMINATION_LOG: str(folder / f"termination-{index}"),
    }


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


async def _start(own: Mapping[str, str], environ: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "disttest_runner",
        f"--parent={os.getpid()}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=LINE_BYTES,
        # Otherwise gloo resolves the host's name, which may be the address of another machine.
        env={"GLOO_SOCKET_IFNAME": "lo", **environ, **own},
        start_new_session=True,  # Ctrl-C reaches this process only, which signals the agents
    )


async def _follow(
    agents: list[asyncio.subprocess.Process], nonce: str, reader: AgentReader, signals: "Signals"
) -> LocalRun:
    kept: list[str] = []
    mark = f"{frames.MARK} {nonce} "

    def take(line: str) -> None:
        if line.startswith(mark):
            kept.append(line)
        elif progress := Progress.read(line, nonce):
            reader.progress(progress)
        else:
            reader.line(line)

    async def read(agent: asyncio.subprocess.Process) -> None:
        assert agent.stdout is not None  # noqa: S101 - narrows for mypy: it was started with a pipe
        async for raw in agent.stdout:
            take(raw.decode(errors="replace").rstrip("\n"))

    async with asyncio.TaskGroup() as group:
        for agent in agents:
            group.create_task(read(agent))
        code = await agents[0].wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OTHERS_SECONDS):
                for agent in agents[1:]:
                    await agent.wait()
        await _stop(agents)
    result = LocalRun(code, is_interrupted=bool(signals.first), quit_by=signals.second)
    try:
        result.report = Report.loads(frames.decode("\n".join(kept), nonce))
    except (frames.FrameError, InvalidReportError) as error:
        result.problem = str(error)
    if result.is_interrupted:
        result.problem = result.problem or "interrupted"
    return result


@dataclass(slots=True)
class Signals:
    """Forwards signals to the agents. `first` and `second` are the signals that were received, 0 for none."""

    agents: Sequence[asyncio.subprocess.Process]
    reader: AgentReader
    first: int = 0
    second: int = 0

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal, number)

    def repeat(self) -> None:
        """Send received signals to agents that started later."""
        if self.second:
            _send(self.agents, signal.SIGQUIT)
        elif self.first:
            _send(self.agents[:1], self.first)

    def _on_signal(self, number: int) -> None:
        if not self.first:
            self.first = number
            self.reader.line(INTERRUPTED)
            _send(self.agents[:1], number)  # the leader ends the others
        elif not self.second:
            self.second = number
            _send(self.agents, signal.SIGQUIT)
            asyncio.get_running_loop().call_later(QUIT_SECONDS, _send, self.agents, signal.SIGKILL)


def _send(agents: Iterable[asyncio.subprocess.Process], number: int) -> None:
    for agent in agents:
        if agent.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                agent.send_signal(number)


async def _stop(agents: list[asyncio.subprocess.Process]) -> None:
    running = [agent for agent in agents if agent.returncode is None]
    _send(running, signal.SIGTERM)
    for agent in running:
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await agent.wait()
        except TimeoutError:
            _send([agent], signal.SIGKILL)
            await agent.wait()
