"""One rank: a pytest session whose run loop takes its cases from the agent."""

import contextlib
import faulthandler
import json
import random
import signal
import socket
import sys
from typing import Any, TextIO

import pytest

from disttest_runner import upstream
from disttest_runner.cases import collection, rank_orders, sources
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.diagnosis.responder import Responder
from disttest_runner.linux import processes
from disttest_runner.process_group.generation import Generation
from disttest_runner.protocol.wire import Channel
from disttest_runner.rank.case_isolation import CaseIsolation
from disttest_runner.rank.failure_text import FullDiffs, LogRecords
from disttest_runner.rank.fixtures import Fixtures
from disttest_runner.rank.session import LockStep

# The terminal's report is the leader's to write; a cache would be written into the user's folder; output is not
# captured, so that a rank that dies has shown what it wrote; faulthandler is ours already.
OPTIONS = ("-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler")


def main(order: RankOrder, descriptors: list[int]) -> int:
    """Run until the agent hangs up. Descriptors: channel, watcher, file for stacks, on rank 0 the store's listener."""
    channel_descriptor, watched, stacks, *listener = descriptors

    def show_stacks_on_signal() -> None:
        faulthandler.unregister(signal.SIGUSR1)  # a second register() would leave somebody else's handler in place
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True, chain=False)

    faulthandler.enable()
    show_stacks_on_signal()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO is a TextIOWrapper in a real process
    channel = Channel(socket.socket(fileno=channel_descriptor), takes_descriptors=False)
    random.seed(order.rank)
    generation = Generation(order, listener[0] if listener else None)
    generation.enter()
    watcher = Responder.start(watched)

    def enter_case(number: int) -> None:
        generation.enter_case(number)
        watcher.enter_case()

    tidy = CaseIsolation(generation, show_stacks_on_signal)
    records = LogRecords()
    folder = order.directory if order.in_repository else ""
    lock_step = LockStep(channel, enter_case, tidy.why_stale, order.cases, records=records, folder=folder)
    upstream.install(generation)
    plugins = [upstream.ImportOrder(), lock_step, tidy, records, FullDiffs(), Fixtures(generation)]
    plugins += [upstream.SinglesOnce(order.rank)] if order.root else []
    with contextlib.redirect_stderr(Remembering(sys.stderr)) as errors:
        try:
            code = int(pytest.main([*OPTIONS, *sources.pytest_arguments(order)], plugins=plugins))
            cause = collection.cause(errors.last)
            problem = f"pytest ended with exit code {code} before it had collected anything: {cause}\n{errors.last}"
        except sources.SourceError as error:
            code, problem = pytest.ExitCode.USAGE_ERROR, str(error)
    if not lock_step.has_collected:
        lock_step.report_broken_session(problem)
        while channel.receive() is not None:  # the agent ends us, once the leader knows
            pass
    return code


class Remembering:
    """Passes on what is written and keeps the end of it: pytest tells some errors to nobody else."""

    KEPT_CHARACTERS = 2000

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.last = ""

    def write(self, text: str) -> int:
        self.last = (self.last + text)[-self.KEPT_CHARACTERS :]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def start_afresh() -> int:
    """In a new interpreter, where forking is not safe. What the zygote of its suite imports it has as well."""
    order, descriptors = RankOrder.from_json(json.loads(sys.argv[1])), [int(word) for word in sys.argv[2:]]
    rank_orders.import_early(rank_orders.preload(order))
    return main(order, descriptors)


if __name__ == "__main__":
    processes.exit_with(start_afresh)
