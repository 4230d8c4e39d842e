"""Imports once what every rank needs, then forks ranks in milliseconds. It touches no device, runs no op.

The agent talks to it over the socket whose descriptor is its only argument.
In: fork (with the rank's descriptors), preload. Out: warm, forked, exited, preloaded.
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

from disttest_runner.cases import rank_orders
from disttest_runner.linux import processes
from disttest_runner.protocol.wire import Channel, Message

WAKEUP_BYTES = 4096  # at most so many are read at once: one for each signal
COPY_SECONDS = 30  # a driver that is loaded for the first time takes long; one that is broken may never answer


class Zygote:
    def __init__(self, agent: Channel) -> None:
        self.agent = agent
        self.ranks: dict[int, int] = {}  # pid -> rank
        self.unsafe = ""  # why ranks must not be forked from here
        self.woken, self.wakes = socket.socketpair()  # a byte for each signal

    def serve(self, modules: list[str]) -> None:
        """Import, say so, then obey."""
        started = time.monotonic()
        hide_cuda_without_gpus()
        for module in modules:
            importlib.import_module(module)
        _import_pytest_plugins()
        gc.collect()
        gc.freeze()  # the collector of a child need not walk, hence copy, what it inherits
        _rehearse()
        gc.freeze()
        self.unsafe = why_unsafe()
        self.agent.send(
            {"op": "warm", "seconds": time.monotonic() - started, "unsafe": self.unsafe, "versions": versions()}
        )
        self.obey()

    def obey(self) -> None:
        """Until the agent is gone."""
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
                    raise ValueError(f"the agent asks for {unknown!r}")

    def next_message(self) -> Message | None:
        """What the agent sends next; ranks that end meanwhile are reaped.

        Python handles a signal between two instructions. One that comes after the last of them and before a read is
        handled after that: once the agent has spoken, which may wait for that very rank. Hence the wait for both.
        """
        while not self.agent.has_line:
            ready, _, _ = select.select((self.agent.sock, self.woken), (), ())
            if self.woken in ready:
                self.woken.recv(WAKEUP_BYTES)
            if self.agent.sock in ready:
                break
        return self.agent.receive()

    def fork(self, message: Message, descriptors: list[int]) -> None:
        with _sigchld_blocked():  # a rank that ends at once is known before it is reaped
            pid = os.fork()
            if pid == 0:
                become_rank(message, descriptors, self)
            self.ranks[pid] = message["order"]["rank"]
            self.agent.send({"op": "forked", "rank": message["order"]["rank"], "pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)

    def preload(self, modules: list[str]) -> None:
        """For later suites; the signal handler reaps ranks meanwhile."""
        if not self.unsafe:  # else every rank imports for itself
            rank_orders.import_early(modules)
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


def hide_cuda_without_gpus() -> None:
    """Have torch say that there is no GPU, where there is none, without a look at the driver.

    Where NVML finds nothing torch asks the driver, at the import of its test harness for one, and a process that has
    done so cannot be forked. A copy asks once; if it finds no GPU none is visible from here on, which torch believes.
    """
    import torch  # noqa: PLC0415 - only in this process, and after its environment was set

    if _copy_confirms(lambda: torch.cuda.device_count() == 0):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def why_unsafe() -> str:
    """Why children forked from here might not work, if so. Torch sets its flag at the fork: only a child can tell."""
    import torch  # noqa: PLC0415 - imported before

    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        return f"the zygote has {threads} threads"
    is_safe = _copy_confirms(lambda: not torch.cuda._is_in_bad_fork())  # noqa: SLF001 - the only way to ask
    return "" if is_safe else "the CUDA driver was asked before the fork"


def _copy_confirms(question: Callable[[], bool]) -> bool:
    """Ask in a copy of this process, which ends: what an answer changes does not stay. A copy that breaks says no."""
    copy = os.fork()
    if copy == 0:
        code = 1
        try:
            signal.alarm(COPY_SECONDS)
            warnings.simplefilter("ignore")  # torch's, of an NVML without a driver
            code = 0 if question() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(copy, 0)
    return status == 0


def versions() -> dict[str, str]:
    import pytest  # noqa: PLC0415 - imported before, in this process only
    import torch  # noqa: PLC0415 - same

    found = {"python": sys.version.split()[0], "torch": torch.__version__, "pytest": pytest.__version__}
    if torch.version.git_version:
        found["torch_git"] = torch.version.git_version  # by which a tree of its tests is known
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if hasattr(torch._C, "_nccl_version"):  # noqa: SLF001 - the public function imports more
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]  # torch has no types here
    return found


def _import_pytest_plugins() -> None:
    """Pytest imports its own plugins when it is configured, which would be once a rank."""
    from _pytest.config import default_plugins  # noqa: PLC0415 - in this process only

    for plugin in default_plugins:
        importlib.import_module(f"_pytest.{plugin}")


def _rehearse() -> None:
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
    """In the child: cut every tie to the zygote but the one that kills us with it, then be the rank."""

    def be_rank() -> int:
        os.setpgid(0, 0)  # the family of a rank can be killed at once
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
            _start_afresh(message["order"], [channel, *others])
        from disttest_runner.rank import rank  # noqa: PLC0415 - imports torch: never in the agent, which imports this module

        return rank.main(rank_orders.RankOrder.from_json(message["order"]), [channel, *others])

    processes.exit_with(be_rank)  # a child must never return into the zygote's loop


def _start_afresh(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """A new interpreter in this process: seconds slower, but free of what made the fork unsafe."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    arguments = [json.dumps(order), *map(str, descriptors)]
    os.execv(sys.executable, [sys.executable, "-m", "disttest_runner.rank.rank", *arguments])  # noqa: S606 - no shell wanted


def main() -> None:
    processes.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the agent's to answer
    Zygote(Channel(socket.socket(fileno=int(sys.argv[1])))).serve(sys.argv[3:])


if __name__ == "__main__":
    main()
