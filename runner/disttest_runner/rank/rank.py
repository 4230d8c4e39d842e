"""The process of a rank: runs a pytest session until the agent closes the channel."""

import contextlib
import faulthandler
import json
import os
import random
import signal
import socket
import sys
from typing import Any, TextIO

import pytest

from disttest_runner import upstream
from disttest_runner.cases import collection, preload, sources
from disttest_runner.cases.rank_orders import RankOrder
from disttest_runner.diagnosis import responder
from disttest_runner.diagnosis.responder import Responder
from disttest_runner.linux import processes
from disttest_runner.process_group import device, torch_settings
from disttest_runner.process_group.generation import Generation
from disttest_runner.protocol.wire import Channel
from disttest_runner.rank.case_isolation import CaseIsolation
from disttest_runner.rank.failure_text import FullDiffs, LogRecords
from disttest_runner.rank.fixtures import Fixtures
from disttest_runner.rank.session import LockStep

# The leader writes the report; a cache would be written into the user's folder; output is not captured, so that it is
# complete when a rank dies; faulthandler is enabled already.
OPTIONS = ("-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler")


def main(order: RankOrder, descriptors: list[int]) -> int:
    """Run a rank. Descriptors: channel, watcher, file for stacks, and on rank 0 the store's listener."""
    channel_descriptor, watched, stacks, *listener = descriptors

    def show_stacks_on_signal() -> None:
        faulthandler.unregister(signal.SIGUSR1)  # a second register() keeps the handler of a test
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True, chain=False)

    faulthandler.enable()
    show_stacks_on_signal()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO is a TextIOWrapper in a real process
    channel = Channel(socket.socket(fileno=channel_descriptor), takes_descriptors=False)
    random.seed(order.rank)
    generation = Generation(order, listener[0] if listener else None)
    generation.enter()
    settings = torch_settings.wanted(order.case_seconds, records_gloo=responder.records_gloo(), nccl_log=order.nccl_log)
    settings |= torch_settings.of_versions(device.of_backend(order.backend).versions().get("nccl", ""))
    for sentence in torch_settings.apply(os.environ, settings):
        if order.rank == 0 and order.generation == 1:
            print(f"disttest: {sentence}")
    changed = {**torch_settings.different(os.environ, settings), **generation.settings}
    watcher = Responder.start(watched)

    def enter_case(number: int) -> None:
        generation.enter_case(number)
        watcher.enter_case()

    isolation = CaseIsolation(generation, show_stacks_on_signal)
    records = LogRecords()
    folder = order.suite.directory if order.suite.in_repository else ""
    lock_step = LockStep(
        channel, enter_case, isolation, order.suite.cases, records=records, folder=folder, settings=changed
    )
    upstream.install(generation)
    plugins = [upstream.ImportOrder(), lock_step, isolation, records, FullDiffs(), Fixtures(generation)]
    plugins += [upstream.SinglesOnce(order.rank)] if order.suite.root else []
    with contextlib.redirect_stderr(TailStream(sys.stderr)) as errors:
        try:
            code = int(pytest.main([*OPTIONS, *sources.pytest_arguments(order.suite)], plugins=plugins))
            cause = collection.cause(errors.last)
            problem = f"pytest exited with code {code} before it collected cases: {cause}\n{errors.last}"
        except sources.SourceError as error:
            code, problem = pytest.ExitCode.USAGE_ERROR, str(error)
    if not lock_step.has_collected:
        lock_step.report_broken_session(problem)
        while channel.receive() is not None:  # the agent ends this process after the leader has the report
            pass
    return code


class TailStream:
    """A stream that keeps the end of what is written: pytest writes some errors to standard error only."""

    KEPT_CHARACTERS = 2000

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.last = ""

    def write(self, text: str) -> int:
        self.last = (self.last + text)[-self.KEPT_CHARACTERS :]
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main_without_zygote() -> int:
    """Run a rank in a new interpreter, if forking is not safe, with the same imports as a zygote."""
    order, descriptors = RankOrder.from_json(json.loads(sys.argv[1])), [int(word) for word in sys.argv[2:]]
    preload.import_modules(preload.modules_of_suite(order.suite))
    return main(order, descriptors)


if __name__ == "__main__":
    processes.exit_with(main_without_zygote)
