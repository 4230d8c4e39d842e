"""A thread in each rank that answers the agent, also while the main thread waits in a collective.

It sleeps in `recv` until there is a query. It is started without `threading`, so that cases that count threads do not
see it, and it gets no signals.
"""

import _thread
import ctypes
import faulthandler
import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d

from disttest_runner.diagnosis import flight_recorder
from disttest_runner.protocol.wire import Channel, Message

CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
PR_SET_PTRACER = 0x59616D61
DUMP_BYTES = 8 << 20  # of the whole recorder

# The newer one also records gloo. Each has a separate recorder.
DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


class Responder:
    def __init__(self, sock: socket.socket) -> None:
        self._channel = Channel(sock)
        self._case_started_ns = 0

    @classmethod
    def start(cls, descriptor: int) -> "Responder":
        """Start the thread; `descriptor` is a socket to the agent."""
        sock = socket.socket(fileno=descriptor)
        agent, _, _ = CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
        _let_trace(agent)
        responder = cls(sock)
        _thread.start_new_thread(responder._serve, ())
        return responder

    def enter_case(self) -> None:
        """Attribute operations from now on to the case."""
        self._case_started_ns = time.time_ns()

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._channel.send({"op": "hello", "thread": threading.get_native_id()})
            while (message := self._channel.receive()) is not None:
                self._answer(message)
        except (OSError, ValueError):  # the agent is gone, and this process will be killed
            return

    def _answer(self, message: Message) -> None:
        match message["op"]:
            case "look":
                self._channel.send({"op": "stack", "text": stack() if message["stack"] else ""})
                self._channel.send({"op": "trace", **self._trace()})
            case "dump":
                text, problem = json.dumps(dumps()), ""
                if len(text) > DUMP_BYTES:
                    problem = f"a flight recorder of {len(text)} bytes is too large. Decrease TORCH_FR_BUFFER_SIZE"
                    text = ""
                self._channel.send({"op": "dump", "text": text, "problem": problem})
            case _:  # from a later version
                pass

    def _trace(self) -> dict[str, Any]:
        try:
            trace = flight_recorder.read(dumps(), case_started_ns=self._case_started_ns, members=members())
        except Exception as error:  # noqa: BLE001 - torch's format changes between versions; the hang is reported all the same
            return {"trace": None, "problem": f"the flight recorder could not be read: {error!r}"[:500]}
        return {"trace": trace.to_json() if has_recorder() else None, "problem": ""}


def _let_trace(pid: int) -> None:
    """Allow a process and its children to trace this one, where Yama allows that to ancestors only."""
    # a kernel without Yama refuses, and does not need it
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def records_gloo() -> bool:
    """Whether torch has the newer flight recorder."""
    return hasattr(torch._C._distributed_c10d, DUMPS[0])  # noqa: SLF001 - the only access


def has_recorder() -> bool:
    return any(hasattr(torch._C._distributed_c10d, name) for name in DUMPS)  # noqa: SLF001 - the only access


def dumps() -> list[Mapping[str, Any]]:
    """Return the recorders' dumps, without the callers' frames: resolving them takes seconds."""
    module = torch._C._distributed_c10d  # noqa: SLF001 - the only access
    return [json.loads(getattr(module, name)()) for name in DUMPS if hasattr(module, name)]


def members() -> dict[str, tuple[int, ...]]:
    """Return the ranks of all groups by name; the recorder has them for NCCL's groups only."""
    world = distributed_c10d._world  # noqa: SLF001 - there is no public list of groups
    ranks = dict(world.pg_group_ranks)
    return {str(name): tuple(sorted(ranks[group])) for group, name in dict(world.pg_names).items() if group in ranks}


def stack() -> str:
    """Return the stacks of all threads; they are complete, unlike a file that a signal handler still writes."""
    descriptor = os.memfd_create("stack")
    try:
        faulthandler.dump_traceback(descriptor, all_threads=True)
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
    finally:
        os.close(descriptor)
