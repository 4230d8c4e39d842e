"""Many runs of one series that end together."""

import asyncio
from typing import Any

import pytest

from disttest_operator.cache.cache import Cache
from disttest_operator.core import actions
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.series import ledger, run_results
from disttest_operator.series.ledger_store import LedgerStore
from disttest_operator.series.retention import ReportRetention
from tests.support.builders.runs import a_test, at
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.fakes.uncounted import Uncounted
from tests.support.fakes.world import run_body

LAST = {"completionTime": "2026-11-21T02:00:20Z", "verdict": "Passed", "reason": "AllCasesPassed", "message": "good"}


class Setting:
    """Runs that are about to be counted."""

    def __init__(self, runs: int) -> None:
        self.cluster = FakeCluster()
        self.caches = Cache(Defaults(image="runner:1"))
        retention = ReportRetention(self.cluster, self.caches, most=10)
        self.ledgers = LedgerStore(
            cluster=self.cluster,
            caches=self.caches,
            clock=lambda: at(20),
            counts=Uncounted(),
            retention=retention,
        )
        self.tests = [self._run(number) for number in range(runs)]

    def _run(self, number: int) -> DistTest:
        name, uid = f"run-{number}", f"uid-of-{number}"
        body = run_body()
        body["metadata"] |= {"name": name, "uid": uid}
        self.caches.put(Kind.RUN, self.cluster.put(Kind.RUN, body), at(0))
        return a_test(name=name, uid=uid)

    async def fold_together(self) -> list[ledger.Entry | None]:
        """All of them come while the ledger is being written."""
        self.ledgers._queues.clear()  # its locks belong to another loop
        async with self.ledgers._queue("gpu-ci", "adhoc").lock:
            entries = [ledger.make_entry(uid=test.uid, name=test.name, status=LAST) for test in self.tests]
            steps = [actions.Fold(series="adhoc", entry=entry, results=run_results.NOTHING) for entry in entries]
            pairs = zip(self.tests, steps, strict=True)
            folds = [asyncio.create_task(self.ledgers.fold(test, step)) for test, step in pairs]
            await asyncio.sleep(0)
        return await asyncio.gather(*folds)

    def finish(self, test: DistTest) -> None:
        body = self.cluster.objects[Kind.RUN, "gpu-ci", test.name] | {"status": LAST}
        self.caches.put(Kind.RUN, self.cluster.put(Kind.RUN, body), at(21))

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.objects[Kind.SERIES, "gpu-ci", "adhoc"]["status"]
        return status

    @property
    def writes(self) -> int:
        return self.cluster.done.count("patch disttestseries adhoc")


def test_runs_that_end_together_are_counted_in_one_write() -> None:
    setting = Setting(5)
    entries = asyncio.run(setting.fold_together())
    assert [entry and entry["uid"] for entry in entries] == [test.uid for test in setting.tests]
    assert setting.status["runCount"] == 5
    assert setting.writes == 1


def test_a_ledger_is_not_read_again_without_another_writer() -> None:
    setting = Setting(1)
    asyncio.run(setting.fold_together())
    setting.finish(setting.tests[0])
    setting.cluster.reads.clear()
    setting.tests = [setting._run(7)]
    asyncio.run(setting.fold_together())
    assert "get disttestseries adhoc" not in setting.cluster.reads
    assert setting.status["runCount"] == 2
    assert [entry["uid"] for entry in setting.status["pending"]] == ["uid-of-7"], "the finished one goes with the write"


def test_more_runs_than_the_ledger_has_room_for_are_counted_one_after_the_other_as_they_finish() -> None:
    setting = Setting(ledger.PENDING + 4)

    async def fold_and_finish() -> None:
        folding = asyncio.create_task(setting.fold_together())
        while not folding.done():
            await asyncio.sleep(0)
            for entry in (
                setting.cluster.objects.get((Kind.SERIES, "gpu-ci", "adhoc"), {}).get("status", {}).get("pending", [])
            ):
                setting.finish(next(test for test in setting.tests if test.uid == entry["uid"]))
        await folding

    asyncio.run(fold_and_finish())
    assert setting.status["runCount"] == ledger.PENDING + 4


def test_a_ledger_that_another_has_written_meanwhile_is_read_again() -> None:
    setting = Setting(2)
    asyncio.run(setting.fold_together())
    body = setting.cluster.objects[Kind.SERIES, "gpu-ci", "adhoc"]
    setting.cluster.put(Kind.SERIES, body | {"status": body["status"] | {"runCount": 40}})
    setting.tests = [setting._run(9)]
    asyncio.run(setting.fold_together())
    assert setting.status["runCount"] == 41


@pytest.mark.parametrize("status", [LAST, None], ids=["finished", "gone"])
def test_a_run_that_another_operator_has_judged_is_not_counted(status: dict[str, Any] | None) -> None:
    """Our caches are behind: only the live read knows."""
    setting = Setting(1)
    where = (Kind.RUN, "gpu-ci", "run-0")
    if status:
        setting.cluster.put(Kind.RUN, setting.cluster.objects[where] | {"status": status})
    else:
        del setting.cluster.objects[where]
    assert asyncio.run(setting.fold_together()) == [None]
    assert setting.cluster.objects[Kind.SERIES, "gpu-ci", "adhoc"].get("status") is None


def test_settling_leaves_the_entries_of_runs_whose_verdict_is_not_written_yet() -> None:
    setting = Setting(2)
    asyncio.run(setting.fold_together())
    setting.finish(setting.tests[1])
    asyncio.run(setting.ledgers.settle("gpu-ci", "adhoc"))
    assert [entry["uid"] for entry in setting.status["pending"]] == [setting.tests[0].uid]
    before = setting.writes
    asyncio.run(setting.ledgers.settle("gpu-ci", "adhoc"))
    assert setting.writes == before, "nothing to forget, nothing to write"
