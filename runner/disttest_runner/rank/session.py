"""The pytest plugin of a rank: reports the collected cases, then runs each case that the agent announces."""

import contextlib
import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import pytest

from disttest_contract import limits
from disttest_contract.outcomes import BAD, Outcome
from disttest_runner.cases import collection
from disttest_runner.protocol.wire import LINE_BYTES, Channel, pack
from disttest_runner.rank import pytest_overhead
from disttest_runner.rank.case_isolation import CaseIsolation
from disttest_runner.rank.failure_text import LogRecords, without_hints
from disttest_runner.rank.fixtures import MEASURED
from disttest_runner.results.blame import IDLE

# Prefixes of skip reasons with a special meaning.
NOT_RUN_MARK = "not run: "  # the world does not fit
LONGEST_BYTES = LINE_BYTES - (1 << 20)  # of the ids of a suite; the rest of the line is for the other fields
IDLE_MARK = "idle: "  # this rank takes no part in the case

Word = Outcome | Literal["idle"]  # what a rank reports for a case


def digest(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode(errors="replace")).hexdigest()


class LockStep:
    """Runs cases by their place in the collected order; numbers beyond it are further repetitions."""

    def __init__(
        self,
        channel: Channel,
        enter_case: Callable[[int], None],
        isolation: CaseIsolation,
        wanted: Sequence[str] = (),
        *,
        records: LogRecords,
        folder: str = "",
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.channel = channel
        self._records = records
        self._settings = dict(settings)  # for the report
        self._folder = folder  # root of ids, if it is not pytest's rootdir
        self._wanted = wanted  # ids of the only cases to run; all if empty
        self._enter_case, self._isolation = enter_case, isolation
        self.has_collected = False
        self._collection_problems: list[str] = []
        self._skipped: list[str] = []  # whole files
        self._deselected = 0
        self._outcome: Word | None = None
        self._message = ""

    def report_broken_session(self, message: str) -> None:
        self.has_collected = True
        problems = "\n".join([*self._collection_problems, message])
        self._report_collected([], problems)

    def _report_collected(self, ids: list[str], problems: str) -> None:
        self.channel.send(
            {
                "op": "collected",
                "digest": digest(ids),
                "ids": ids,
                "error": limits.cut_middle(problems, limits.MESSAGE_BYTES),
                "note": "\n".join(self._skipped)[: limits.MESSAGE_BYTES],
                "settings": self._settings,
            }
        )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = report.longreprtext
            self._collection_problems.append(f"{report.nodeid}: {collection.cause(text)}\n{text}")
        elif report.skipped:
            self._skipped.append(f"{report.nodeid}: {skip_reason(report)}")

    def pytest_internalerror(self, excrepr: object) -> None:
        self._collection_problems.append(str(excrepr))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._deselected += len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        prefix = collection.prefix(self._folder, session.config.rootpath)
        if self._wanted:
            self._choose(session, prefix)
        ids = [item.nodeid.removeprefix(prefix) for item in session.items]
        if self._deselected and not ids:
            expression = session.config.option.keyword
            self._skipped.insert(0, f"none of {self._deselected} matches {expression!r} (-k, `select`)")
        if problem := _excess(ids):
            self._collection_problems.append(problem)
            ids = []
        problems = "\n".join(self._collection_problems)
        self.has_collected = True
        self._report_collected(ids, problems)
        pytest_overhead.leave_out_logging(session)
        gc.collect()
        gc.freeze()  # garbage collection during a case skips what was imported and collected
        while (message := self.channel.receive()) is not None:
            self._run(session, message["case"])
        return True

    def _choose(self, session: pytest.Session, prefix: str) -> None:
        """Select the wanted cases; ids relative to pytest's rootdir are accepted too."""
        collected = [item.nodeid.removeprefix(prefix) for item in session.items]
        wanted = [case_id.removeprefix(prefix) for case_id in self._wanted]
        if problem := collection.missing_cases(collected, wanted):
            self._collection_problems.append(problem)
        session.items = [item for item, case_id in zip(session.items, collected, strict=True) if case_id in wanted]

    def _run(self, session: pytest.Session, number: int) -> None:
        items, place = session.items, number % len(session.items)
        self._outcome, self._message = None, ""
        self._records.clear()
        self._enter_case(number)
        started = time.perf_counter()
        following = items[place + 1] if place + 1 < len(items) else None
        items[place].stash.setdefault(MEASURED, []).clear()  # of an earlier repetition
        session.config.hook.pytest_runtest_protocol(item=items[place], nextitem=following)
        if self._outcome is None:
            self._outcome, self._message = Outcome.ERRORED, "pytest reported nothing about this case"
        if error := self._isolation.device_error(has_failed=self._outcome in BAD):  # whatever was expected of the case
            self._outcome = self._outcome if self._outcome in BAD else Outcome.FAILED
            self._message = f"{self._message}\n{error}".lstrip()
        done = {
            "op": "done",
            "case": number,
            "outcome": self._outcome,
            "seconds": time.perf_counter() - started,
            "message": self._message[-limits.MESSAGE_BYTES :],
        }
        if self._outcome in BAD and (log := self._records.text()):
            done["log"] = log
        if measured := items[place].stash.get(MEASURED, None):
            done["measured"] = [sample.to_wire() for sample in measured]
        if stale := self._isolation.why_stale():
            done["stale"] = stale
        self.channel.send(done)
        if following is not None:
            _locate(following)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Merge set-up, call and tear-down: the first bad one counts, and only a call can pass a case."""
        found = classify(report)
        if found is None or self._outcome in (Outcome.FAILED, Outcome.ERRORED):
            return
        if self._outcome is None or found[0] in (Outcome.FAILED, Outcome.ERRORED):
            self._outcome, self._message = found


def _locate(item: pytest.Item) -> None:
    """Compute the cached source location of the next case now, while no rank waits for this one."""
    with contextlib.suppress(Exception):  # the case reports the error
        item.location  # noqa: B018 - a cached property


def _excess(ids: Sequence[str]) -> str:
    """Return a sentence if the cases exceed a line to the leader or a report."""
    if len(ids) > limits.CASES:
        return collection.too_many(len(ids))
    if (size := len(pack({"ids": ids}))) > LONGEST_BYTES:
        return (
            f"the IDs of {len(ids)} cases have {size} bytes, more than the limit of {LONGEST_BYTES}. "
            "Use shorter IDs for parametrized cases"
        )
    return ""


def classify(report: pytest.TestReport) -> tuple[Word, str] | None:
    """Return outcome and message of one phase; None if it decides nothing."""
    expected = getattr(report, "wasxfail", None)
    if report.failed:
        return (Outcome.FAILED if report.when == "call" else Outcome.ERRORED), without_hints(report.longreprtext)
    if report.skipped and expected is not None:
        return Outcome.XFAILED, str(expected).removeprefix("reason: ")
    if report.skipped:
        reason = skip_reason(report)
        if reason.startswith(IDLE_MARK):
            return IDLE, reason
        return (Outcome.NOT_RUN if reason.startswith(NOT_RUN_MARK) else Outcome.SKIPPED), reason
    if report.when == "call":
        return (Outcome.PASSED, "") if expected is None else (Outcome.XPASSED, str(expected))
    return None


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
