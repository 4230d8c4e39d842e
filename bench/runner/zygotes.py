"""Zygotes that agents of benchmarks start; BENCH_ZYGOTE names one of the two.

`stub` forks ranks without torch and pytest, which speak the protocol of a rank and let every case pass: forking,
reaping and all messages are the product's. `import` is the product's zygote, but every rank imports everything, as with
torch's harness.
"""

import os
import signal
import socket
import sys
from types import ModuleType

from bench.runner.gangs import CASES, ZYGOTE
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.linux import processes
from disttest_runner.protocol.wire import Channel
from disttest_runner.zygote import zygote


def be_rank(_: RankOrder, descriptors: list[int]) -> int:
    channel = Channel(socket.socket(fileno=descriptors[0]), takes_descriptors=False)
    ids = [f"stub::case_{number}" for number in range(int(os.environ[CASES]))]
    channel.send({"op": "collected", "digest": "stub", "ids": ids, "error": "", "note": "", "settings": {}})
    while (message := channel.receive()) is not None:
        channel.send({"op": "done", "case": message["case"], "outcome": "passed", "seconds": 0.0, "message": ""})
    return 0


def main_of_stubs() -> None:
    """Take the arguments of the product's zygote, but import nothing that they name."""
    processes.die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rank = ModuleType("disttest_runner.rank.rank")  # a forked child imports it by this name
    vars(rank)["main"] = be_rank
    sys.modules[rank.__name__] = rank
    agent = Channel(socket.socket(fileno=int(sys.argv[1])))
    agent.send({"op": "warm", "seconds": 0.0, "unsafe": "", "versions": {}})
    zygote.Zygote(agent).serve_requests()


if __name__ == "__main__":
    if os.environ[ZYGOTE] == "stub":
        main_of_stubs()
    else:
        zygote.why_unsafe = lambda: "a benchmark measures the cost"
        zygote.main()
