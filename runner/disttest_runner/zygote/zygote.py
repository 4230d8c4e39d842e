"""Imports once what every rank needs, then forks ranks in milliseconds. It uses no device and runs no operator.

The agent sends `fork` (with the rank's file descriptors) and `preload` over the socket whose descriptor is the first
argument; the zygote sends `warm`, `forked`, `exited` and `preloaded`.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from disttest_runner.cases import preload, rank_orders
from disttest_runner.linux import processes
from disttest_runner.protocol.wire import Channel, Message

WAKEUP_BYTES = 4096  # the most that are read at once, one for each signal
COPY_SECONDS = 30  # a driver that is loaded for the first time takes long; one that is broken may never answer


class Zygote:
    def __init__(self, agent: Channel) -> None:
        self.agent = agent
        self.ranks: dict[int, int] = {}  # pid -> rank
        self.unsafe = ""  # why ranks must not be forked from here
        self.woken, self.wakes = socket.socketpair()  # a byte for each signal

    def serve(self, modules: list[str]) -> None:
        started = time.monotonic()
        hide_absent_devices()
        for module in modules:
            importlib.import_module(module)
        _import_pytest_plugins()
        gc.collect()
        gc.freeze()  # the collector of a child need not walk, hence copy, what it inherits
        _warm_up_pytest()
        gc.freeze()
        self.unsafe = why_unsafe()
        self.agent.send(
            {"op": "warm", "seconds": time.monotonic() - started, "unsafe": self.unsafe, "versions": versions()}
        )
        self.serve_requests()

    def serve_requests(self) -> None:
        self.wakes.setblocking(False)
        signal.set_wakeup_fd(self.wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: self.reap())
        while (message := self.next_message()) is not None:
            match message["op"]:
                case "fork":
                    self.fork(message, self.agent.take_descriptors(message["descriptors"]))
                case "preload":
                    self.preload(message["modules"])
                case unknown:
                    raise ValueError(f"unknown request {unknown!r} of the agent")

    def next_message(self) -> Message | None:
        """Return the agent's next request; ranks that end meanwhile are reaped.

        Python handles a signal between two instructions. One that arrives after the last of them and before a blocking
        read is handled after the read, for which the agent may wait for that same rank. Hence the wait for both.
        """
        while not self.agent.has_line:
            ready, _, _ = select.select((self.agent.sock, self.woken), (), ())
            if self.woken in ready:
                self.woken.recv(WAKEUP_BYTES)
            if self.agent.sock in ready:
                break
        return self.agent.receive()

    def fork(self, message: Message, descriptors: list[int]) -> None:
        with _sigchld_blocked():  # a rank that ends at once is registered before it is reaped
            pid = os.fork()
            if pid == 0:
                become_rank(message, descriptors, self)
            self.ranks[pid] = message["order"]["rank"]
            self.agent.send({"op": "forked", "rank": message["order"]["rank"], "pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)

    def preload(self, modules: list[str]) -> None:
        """Import modules of later suites; the signal handler reaps ranks meanwhile."""
        if not self.unsafe:  # else every rank has a new interpreter
            preload.import_modules(modules)
        gc.collect()
        gc.freeze()
        self.unsafe = self.unsafe or why_unsafe()
        self.agent.send({"op": "preloaded", "unsafe": self.unsafe})

    def reap(self) -> None:
        for pid in list(self.ranks):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    rank = self.ranks.pop(pid)
                    code = os.waitstatus_to_exitcode(status)
                    self.agent.send({"op": "exited", "rank": rank, "pid": pid, "status": code})


def hide_absent_devices() -> None:
    """Limit this process to no device of the types that this machine does not have.

    Where NVML finds no GPU, torch asks the driver when its test harness is imported, and a process that has used the
    driver cannot be forked. So a copy of this process checks once, and torch obeys the variable from then on.
    """
    from disttest_runner.process_group import device  # noqa: PLC0415 - imports torch, after the environment was set

    for one in device.BY_BACKEND.values():
        if one.visibility_variable and _copy_confirms(one.is_absent):
            os.environ[one.visibility_variable] = ""


def why_unsafe() -> str:
    """Return why children forked from here might not work, if so. Torch sets its flag at the fork, in the child."""
    from disttest_runner.process_group import device  # noqa: PLC0415 - imports torch

    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        return f"the zygote has {threads} threads"
    is_safe = _copy_confirms(lambda: all(one.is_fork_safe() for one in device.BY_BACKEND.values()))
    return "" if is_safe else "the CUDA driver was used before the fork"


def _copy_confirms(question: Callable[[], bool]) -> bool:
    """Return the answer of a forked copy of this process, so that its side effects end with it; False if it fails."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(COPY_SECONDS)
            warnings.simplefilter("ignore")  # torch's, of an NVML without a driver
            code = 0 if question() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return status == 0


def versions() -> dict[str, str]:
    import pytest  # noqa: PLC0415 - imported before, in this process only
    import torch  # noqa: PLC0415 - same

    from disttest_runner.process_group import device  # noqa: PLC0415 - same

    found = {"python": sys.version.split()[0], "torch": torch.__version__, "pytest": pytest.__version__}
    if torch.version.git_version:
        found["torch_git"] = torch.version.git_version  # identifies the source tree of its tests
    for one in device.BY_BACKEND.values():
        found |= one.versions()
    return found


def _import_pytest_plugins() -> None:
    """Pytest imports its own plugins when it is configured, which would be once a rank."""
    from _pytest.config import default_plugins  # noqa: PLC0415 - in this process only

    for plugin in default_plugins:
        importlib.import_module(f"_pytest.{plugin}")


def _warm_up_pytest() -> None:
    from disttest_runner.rank import pytest_overhead, rank  # noqa: PLC0415 - import torch and pytest: in this process only

    pytest_overhead.rehearse(rank.OPTIONS)


@contextlib.contextmanager
def _sigchld_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become_rank(message: Message, descriptors: list[int], zygote: Zygote) -> NoReturn:
    """Become the rank, in the child: drop all that it shares with the zygote, except that the kernel kills it too."""

    def be_rank() -> int:
        os.setpgid(0, 0)  # a rank and its children can be killed together
        processes.die_with_parent(os.getppid())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        channel, output, *others = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        for end in (zygote.agent.sock, zygote.woken, zygote.wakes):
            end.close()
        if zygote.unsafe:
            _start_new_interpreter(message["order"], [channel, *others])
        from disttest_runner.rank import rank  # noqa: PLC0415 - imports torch: never in the agent, which imports this module

        return rank.main(rank_orders.RankOrder.from_json(message["order"]), [channel, *others])

    processes.exit_with(be_rank)  # a child must never return into the zygote's loop


def _start_new_interpreter(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Replace this process by a new interpreter: seconds slower, but without what made the fork unsafe."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    arguments = [json.dumps(order), *map(str, descriptors)]
    os.execv(sys.executable, [sys.executable, "-m", "disttest_runner.rank.rank", *arguments])  # noqa: S606 - no shell wanted


def main() -> None:
    processes.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent handles a terminal's Ctrl-C
    Zygote(Channel(socket.socket(fileno=int(sys.argv[1])))).serve(sys.argv[3:])


if __name__ == "__main__":
    main()
