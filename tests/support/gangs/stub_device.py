"""An accelerator that is not there: calls only enqueue work, as on CUDA, and the work runs on the CPU, late.

With the backend `stub`, each collective of torch runs over gloo in the thread of a stream. Its work can also fail,
never end, or leave out one rank. Calls return before that; what went wrong is seen by `synchronize()`, or by an
operation on a tensor that the work uses.
"""

import collections
import functools
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

BACKEND = "stub"
DEVICE = "disttest_runner.process_group.device"
LATE_SECONDS = 0.005
VERY_LATE_SECONDS = 0.5
FAILURE = "CUDA error: device-side assert triggered"  # as CUDA reports it

# Variables of the agents' environment.
FAULT = "STUB_FAULT"  # fault:rank:operator:number, for one work of this operator on this rank, counted from 1
WAITS = "STUB_WAITS"  # 1: wait() blocks, for compiled code, which reads memory without torch's dispatcher
BLIND = "STUB_BLIND"  # 1: the runner does not synchronize the device

# Of the agents: once a rank has imported the devices, this one has a row.
HOOK = f"""
import importlib.machinery, sys

class Finder:
    @staticmethod
    def find_spec(name, path, target=None):
        if name != "{DEVICE}":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            from tests.support.gangs import stub_device
            stub_device.install(module)
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""


class WorkFault(StrEnum):
    LATE = "late"  # it ends much later than its call returns
    FAILS = "fails"  # on this rank, after its peers' work has ended well
    NEVER_ENDS = "never-ends"  # on this rank, nor does any work that is enqueued after it
    NOT_JOINED = "not-joined"  # this rank does nothing, and its peers wait for it


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of agents whose ranks know the device."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(HOOK)
    root = Path(__file__).parents[3]
    return {"PYTHONPATH": f"{folder}:{root}", **variables}


class Ticket:
    """Work that is enqueued, with the addresses of what it reads and writes."""

    def __init__(self, stream: "Stream", reads: Iterable[int], writes: Iterable[int], *, is_apart: bool) -> None:
        self.reads, self.writes, self.is_apart = frozenset(reads), frozenset(writes), is_apart
        self.calls: list[Callable[[str], None]] = []  # when it has ended
        self._stream = stream

    def conflicts(self, reads: Iterable[int], writes: Iterable[int]) -> bool:
        """Whether others, that read and write this, must wait for it."""
        return not (self.writes.isdisjoint(reads) and self.writes.isdisjoint(writes) and self.reads.isdisjoint(writes))

    def wait(self) -> None:
        self._stream.wait_until(lambda: self not in self._stream.open)

    def then(self, call: Callable[[str], None]) -> None:
        """Call with the error, or with nothing, when the work has ended."""
        self._stream.call_at_end(self, call)


class Stream:
    """Work in the order in which it was enqueued. After the first error nothing runs, as in a poisoned context."""

    def __init__(self) -> None:
        self.error = ""
        self.open: list[Ticket] = []
        self.next_fault: WorkFault | None = None
        self.calls: collections.Counter[str] = collections.Counter()  # of collectives, by operator
        self._jobs: queue.Queue[tuple[Callable[[], Any], Ticket, float]] = queue.Queue()
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def enqueue(
        self,
        job: Callable[[], Any],
        *,
        reads: Iterable[int] = (),
        writes: Iterable[int] = (),
        is_apart: bool = False,
        after_seconds: float = LATE_SECONDS,
    ) -> Ticket:
        """Enqueue what starts a work, and returns it if it must be waited for: `is_apart` does not block later work."""
        self.query()
        ticket = Ticket(self, reads, writes, is_apart=is_apart)
        with self._changed:
            self.open.append(ticket)
        self._jobs.put((job, ticket, after_seconds))
        return ticket

    def synchronize(self) -> None:
        self.wait_until(lambda: not self.open)

    def query(self) -> None:
        """Raise the first error, which every call returns from then on."""
        if self.error:
            raise RuntimeError(self.error)

    def settle(self, touched: frozenset[int], *, writes: bool) -> None:
        """Wait until no work conflicts with an operation on the CPU."""
        written = touched if writes else frozenset()
        self.wait_until(lambda: not any(ticket.conflicts(touched, written) for ticket in self.open))

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait for works; raise the error where they did not end because of one."""
        with self._changed:
            self._changed.wait_for(lambda: self.error or is_true())
            if not is_true():
                self.query()

    def _run(self) -> None:
        while True:
            job, ticket, seconds = self._jobs.get()
            with self._changed:
                before = self.open[: self.open.index(ticket)]
            if self.error:
                self._end(ticket, self.error)
                continue
            try:
                time.sleep(seconds)
                for one in before:
                    if one.conflicts(ticket.reads, ticket.writes):
                        one.wait()
                work = job()
            except Exception as error:  # noqa: BLE001 - of whatever kind, it is the device's
                self._end(ticket, str(error))
                continue
            if ticket.is_apart:
                threading.Thread(target=self._finish, args=(work, ticket), daemon=True).start()
            else:
                self._finish(work, ticket)

    def _finish(self, work: Any, ticket: Ticket) -> None:
        try:
            if work is not None:
                work.wait()
        except Exception as error:  # noqa: BLE001 - same
            self._end(ticket, str(error))
        else:
            self._end(ticket, "")

    def _end(self, ticket: Ticket, error: str) -> None:
        """Work that failed stays open: what it should have written is not there."""
        with self._changed:
            self.error = self.error or error
            if not error:
                self.open.remove(ticket)
            self._changed.notify_all()
            calls, ticket.calls = ticket.calls, []
        for call in calls:
            call(error)

    def call_at_end(self, ticket: Ticket, call: Callable[[str], None]) -> None:
        with self._changed:
            is_open = ticket in self.open and not self.error
            if is_open:
                ticket.calls.append(call)
        if not is_open:
            call(self.error if ticket in self.open else "")


@functools.cache
def stream() -> Stream:
    """Return the only stream of this process. Called in ranks only: a zygote must have no thread."""
    return Stream()


def fail(message: str = FAILURE) -> None:
    """Enqueue a kernel that fails, such as one with a device-side assert."""

    def kernel() -> None:
        raise RuntimeError(message)

    stream().enqueue(kernel)


def poison() -> None:
    """Return when a kernel has failed: from now on every call to the device fails."""
    fail()
    stream().wait_until(lambda: bool(stream().error))


def break_next(fault: WorkFault) -> None:
    """Give the next collective of this rank a fault."""
    stream().next_fault = fault


def take_fault(operator: str) -> WorkFault | None:
    """Return the fault of a new work: what a case has asked for, or what the environment says."""
    stream().calls[operator] += 1
    fault, stream().next_fault = stream().next_fault, None
    if fault is None and (setting := os.environ.get(FAULT)):
        kind, *place = setting.split(":")
        return WorkFault(kind) if place == [os.environ["RANK"], operator, str(stream().calls[operator])] else None
    return fault


def settle() -> None:
    """Wait for all work of this process, if it has used the device."""
    if stream.cache_info().currsize:
        stream().synchronize()


def install(module: ModuleType) -> None:
    """Register device and backend with the runner and torch."""
    from tests.support.gangs import stub_group  # noqa: PLC0415 - imports torch: in ranks only

    class StubDevice(module.RankDevice):  # type: ignore[misc, name-defined]  # the module is not imported yet
        def synchronize(self) -> None:
            if os.environ.get(BLIND) != "1":
                stream().synchronize()

        def query(self) -> None:
            stream().query()

        def time_calls(self, call: Callable[[], object], iterations: int) -> list[float]:
            def timed() -> None:
                call()
                stream().synchronize()

            return list(super().time_calls(timed, iterations))

    module.BY_BACKEND[BACKEND] = StubDevice()
    stub_group.register(BACKEND)
