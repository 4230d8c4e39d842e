"""Imports once what every rank needs, then forks ranks in milliseconds. It touches no device, runs no op.

The agent talks to it over the socket whose descriptor is its only argument.
In: fork (with the rank's descriptors), preload. Out: warm, forked, exited, preloaded.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from disttest_runner import orders, processes
from disttest_runner.wire import Channel, Message

RANK_BROKE = 70  # exit code of a rank whose own machinery raised (EX_SOFTWARE)


class Zygote:
    def __init__(self, agent: Channel) -> None:
        self.agent = agent
        self.ranks: dict[int, int] = {}  # pid -> rank
        self.unsafe = ""  # why ranks must not be forked from here

    def serve(self, modules: list[str]) -> None:
        """Import, say so, then obey."""
        started = time.monotonic()
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
        signal.signal(signal.SIGCHLD, lambda *_: self.reap())
        while (message := self.agent.receive()) is not None:
            match message["op"]:
                case "fork":
                    self.fork(message, self.agent.take_descriptors(message["descriptors"]))
                case "preload":
                    self.preload(message["modules"])
                case unknown:
                    raise ValueError(f"the agent asks for {unknown!r}")

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
        """Import for later suites; the signal handler reaps ranks meanwhile. A failure is the suite's to report."""
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception:  # noqa: BLE001 - whatever a foreign module raises, the ranks meet it in their own import
                print(f"zygote: {module} cannot be imported ahead of its suite", flush=True)
                traceback.print_exc()
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


def why_unsafe() -> str:
    """Why children forked from here might not work, if so. Torch sets its flag at the fork: only a child can tell."""
    import torch  # noqa: PLC0415 - only in this process, and after its environment was set

    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        return f"the zygote has {threads} threads"
    probe = os.fork()
    if probe == 0:
        os._exit(1 if torch.cuda._is_in_bad_fork() else 0)  # noqa: SLF001 - the only way to ask
    _, status = os.waitpid(probe, 0)
    return "the CUDA driver was asked before the fork" if status else ""


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
    from disttest_runner import rank, rehearsal  # noqa: PLC0415 - import torch and pytest: in this process only

    rehearsal.rehearse(rank.OPTIONS)


@contextlib.contextmanager
def _sigchld_blocked() -> Iterator[None]:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def become_rank(message: Message, descriptors: list[int], zygote: Zygote) -> NoReturn:
    """In the child: cut every tie to the zygote but the one that kills us with it, then be the rank."""
    code = RANK_BROKE
    try:
        os.setpgid(0, 0)  # the family of a rank can be killed at once
        processes.die_with_parent(os.getppid())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        channel, output, *others = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        zygote.agent.sock.close()
        if zygote.unsafe:
            _start_afresh(message["order"], [channel, *others])
        from disttest_runner import rank  # noqa: PLC0415 - imports torch: never in the agent, which imports this module

        code = rank.main(orders.RankOrder.from_json(message["order"]), [channel, *others])
    except BaseException:  # noqa: BLE001 - a child must never return into the zygote's loop
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _start_afresh(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """A new interpreter in this process: seconds slower, but free of what made the fork unsafe."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    arguments = [json.dumps(order), *map(str, descriptors)]
    os.execv(sys.executable, [sys.executable, "-m", "disttest_runner.rank", *arguments])  # noqa: S606 - no shell wanted


def main() -> None:
    processes.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the agent's to answer
    Zygote(Channel(socket.socket(fileno=int(sys.argv[1])))).serve(sys.argv[3:])


if __name__ == "__main__":
    main()
