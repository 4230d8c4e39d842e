"""One rank: a pytest session whose run loop takes its cases from the agent."""

import contextlib
import faulthandler
import importlib.util
import json
import os
import random
import signal
import socket
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest

from disttest_contract import suites
from disttest_runner.generation import Generation
from disttest_runner.orders import RankOrder
from disttest_runner.session import Fixtures, LockStep
from disttest_runner.wire import Channel

# The terminal's report is the leader's to write; a cache would be written into the user's folder; output is not
# captured, so that a rank that dies has shown what it wrote; faulthandler is ours already.
OPTIONS = ("-s", "-p", "no:cacheprovider", "-p", "no:terminal", "-p", "no:faulthandler")
CONFIGURATIONS = ("pytest.ini", "pyproject.toml")


def main(order: RankOrder, descriptors: list[int]) -> int:
    """Run until the agent hangs up. Descriptors: channel, file for stacks, on rank 0 the store's listener."""
    channel_descriptor, stacks, *listener = descriptors
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True, chain=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # TextIO is a TextIOWrapper in a real process
    channel = Channel(socket.socket(fileno=channel_descriptor))
    random.seed(order.rank)
    generation = Generation(order, listener[0] if listener else None)
    generation.enter()
    lock_step = LockStep(channel, generation.enter_case)
    with contextlib.redirect_stderr(Remembering(sys.stderr)) as errors:
        code = pytest.main([*OPTIONS, *what_to_collect(order)], plugins=[lock_step, Fixtures(generation)])
    if not lock_step.has_collected:
        problem = f"pytest ended with exit code {int(code)} before it had collected anything"
        lock_step.report_broken_session(f"{problem}:\n{errors.last}")
        while channel.receive() is not None:  # the agent ends us, once the leader knows
            pass
    return int(code)


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


def what_to_collect(order: RankOrder) -> list[str]:
    """Arguments for pytest. The root is the folder itself, so that ids are the same wherever it lies."""
    if order.builtin:
        spec = importlib.util.find_spec(suites.BUILTIN[order.builtin])
        if spec is None or spec.origin is None:
            raise RuntimeError(f"the module of the built-in suite {order.builtin!r} is not installed")
        file = Path(spec.origin)
        if file.name == "__init__.py":  # a suite of several files
            return [f"--rootdir={file.parent}", "-c", os.devnull, "-o", "python_files=*.py", str(file.parent)]
        return [f"--rootdir={file.parent}", "-c", os.devnull, str(file)]
    folder = Path(order.directory)
    own = next((folder / name for name in CONFIGURATIONS if (folder / name).is_file()), Path(os.devnull))
    return [f"--rootdir={folder}", f"--confcutdir={folder}", "-c", str(own), str(folder)]


if __name__ == "__main__":  # started afresh, where forking is not safe
    sys.exit(main(RankOrder.from_json(json.loads(sys.argv[1])), [int(word) for word in sys.argv[2:]]))
