"""The pod's termination message, kept complete and up to date so that it is right whenever the agent ends."""

import dataclasses
import os
from typing import Any

from disttest_contract.transport.termination_message import Summary
from disttest_runner.output.log import Log


class TerminationMessage:
    """The file is a bind mount, so it is written with one positional write of a full page: no rename, no truncation."""

    def __init__(self, path: str, summary: Summary, log: Log) -> None:
        self.summary = summary
        self._log = log
        self._descriptor: int | None = None
        self._is_written = False
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            log.say(
                f"warning: the termination message cannot be written to {path}: {error.strerror}; continuing without it"
            )
        self.update()

    def update(self, **changes: Any) -> None:
        """Change fields of the summary and write it, which takes tens of microseconds."""
        self.note(**changes)
        self.write_noted()

    def note(self, **changes: Any) -> None:
        """Change fields, to be written with the next update or by `write_noted`."""
        self.summary = dataclasses.replace(self.summary, **changes)
        self._is_written = False

    def write_noted(self) -> None:
        if self._descriptor is None or self._is_written:
            return
        self._is_written = True
        try:
            os.pwrite(self._descriptor, self.summary.to_bytes(), 0)
        except OSError as error:
            self._log.say(
                f"warning: the termination message cannot be written: {error.strerror}; continuing without it"
            )
            os.close(self._descriptor)
            self._descriptor = None
