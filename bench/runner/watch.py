"""Times the leader's questions from outside: the product itself is as it always is."""

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

from bench.runner.gangs import FOLDER
from disttest_contract.gang import environment
from disttest_runner.leader.agent_connections import AgentConnections
from disttest_runner.leader.replies import Replies
from disttest_runner.protocol.wire import Message


class QuestionTimer:
    """Of the process that it is made in."""

    def __init__(self) -> None:
        self.starts: list[float] = []  # seconds that each generation took
        self.cases = 0
        self._cpu_before = self._cpu_after = 0.0
        ask = AgentConnections.ask

        async def watched(board: AgentConnections, message: Message, **options: Any) -> Replies:
            before = time.monotonic()
            if message["op"] == "run" and not self.cases:
                self._cpu_before = time.process_time()
            answers = await ask(board, message, **options)
            if message["op"] == "start":
                self.starts.append(time.monotonic() - before)
            elif message["op"] == "run":
                self.cases += 1
                self._cpu_after = time.process_time()
            return answers

        AgentConnections.ask = watched  # type: ignore[method-assign, assignment]  # watched from outside

    def write(self) -> None:
        """For whoever started this process."""
        found = {
            "starts": self.starts,
            "cases": self.cases,
            "cases_cpu_seconds": self._cpu_after - self._cpu_before,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        }
        Path(os.environ[FOLDER], f"{os.environ[environment.NODE_INDEX]}.json").write_text(json.dumps(found))
