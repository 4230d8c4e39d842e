"""A zygote reports the end of every rank. (What needs torch is in tests/integration/runner/agent/test_zygote.py.)"""

import os
import socket
import subprocess
import sys
from pathlib import Path

from disttest_runner.protocol.wire import Channel
from tests.support import patience

# The kernel gives the signal to the second thread: the first one is not interrupted where it waits for the agent, just
# as if the signal had come the moment before it started to wait.
PROGRAM = """
import os, signal, socket, sys, threading
from disttest_runner.protocol.wire import Channel
from disttest_runner.zygote.zygote import Zygote

agent, gate = map(int, sys.argv[1:])
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
zygote = Zygote(Channel(socket.socket(fileno=agent)))
zygote.unsafe = "so that torch is not asked"
pid = os.fork()
if pid == 0:
    os.read(gate, 1)
    os._exit(3)
zygote.ranks[pid] = 7
zygote.serve_requests()
"""


def test_a_rank_that_ends_the_moment_before_the_zygote_waits_for_the_agent_is_reported() -> None:
    ours, theirs = socket.socketpair()
    gate, opens = os.pipe()
    command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(gate)]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno(), gate]) as process:
        try:
            os.close(gate)
            ours.settimeout(patience.stretched(20))
            channel = Channel(ours)
            channel.send({"op": "preload", "modules": []})
            preloaded = channel.receive()
            assert preloaded
            assert preloaded["op"] == "preloaded"
            patience.wait_until("it waits for the agent", lambda: state(process.pid) == "S", 20)
            os.write(opens, b"x")
            message = channel.receive()
        finally:
            process.kill()
            os.close(opens)
    assert message
    assert (message["op"], message["rank"], message["status"]) == ("exited", 7, 3)


def state(pid: int) -> str:
    """Of its first thread: S, once it waits for something."""
    return Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()[0]
