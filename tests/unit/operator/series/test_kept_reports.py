"""Reports that outlive their runs: the newest of each series, and none without an entry in its ledger."""

import asyncio
import logging
from typing import Any

import pytest

from disttest_operator.cache.cache import Cache
from disttest_operator.core import actions
from disttest_operator.core.api import naming
from disttest_operator.core.api.api_errors import ApiServerError, ConflictError
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.workload import job
from disttest_operator.series.ledger_store import LedgerStore
from disttest_operator.series.retention import ReportRetention
from disttest_runner.compat import override
from tests.support.builders.runs import UID, a_test, at
from tests.support.fakes.fake_cluster import FakeCluster, PowerCut
from tests.support.fakes.uncounted import Uncounted
from tests.support.fakes.world import OperatorWorld, live, run_body

SHA256 = "ab" * 32


class KeptSeries:
    """Runs of `adhoc` one after the other, each with its report, and the garbage collector."""

    def __init__(self, most: int = 10) -> None:
        self.cluster = FakeCluster()
        self.caches = Cache(Defaults(image="runner:1"))
        self.count = 0
        self.start(most)

    def start(self, most: int) -> None:
        """An operator."""
        self.retention = ReportRetention(self.cluster, self.caches, most=most)
        self.ledgers = LedgerStore(
            cluster=self.cluster,
            caches=self.caches,
            clock=lambda: at(20),
            counts=Uncounted(),
            retention=self.retention,
        )

    def run(self, *, has_report: bool = True, is_gone: bool = True) -> DistTest:
        test = self.begin()
        self.end(test, has_report=has_report)
        if is_gone:
            self.delete(test)
        return test

    def begin(self, uid: str = "") -> DistTest:
        name, uid = f"run-{self.count}", uid or f"uid-of-{self.count}"
        self.count += 1
        body = run_body()
        body["metadata"] |= {"name": name, "uid": uid}
        self.caches.put(Kind.RUN, self.cluster.put(Kind.RUN, body), at(0))
        return a_test(name=name, uid=uid)

    def end(self, test: DistTest, *, has_report: bool = True) -> None:
        """Report, ledger, status, and a moment later the ledger again."""
        status = self.count_in(test, has_report=has_report)
        asyncio.run(self.retention.keep(test))
        self.finish(test, status)
        self.settle()

    def count_in(self, test: DistTest, *, has_report: bool = True) -> dict[str, Any]:
        status: dict[str, Any] = {"completionTime": "2026-11-21T02:00:20Z", "verdict": "Passed"}
        status |= {"reason": "AllCasesPassed", "message": "good"}
        if has_report:
            name = naming.report_config_map(test)
            manifest = job.build_report_config_map(test, name, b"packed", SHA256)
            asyncio.run(self.cluster.create(Kind.CONFIG_MAP, manifest))
            status |= {"report": {"configMap": name, "sha256": SHA256}}
        entry = ledger.make_entry(uid=test.uid, name=test.name, status=status)
        asyncio.run(self.ledgers.fold(test, actions.Fold(series="adhoc", entry=entry, results=run_results.NOTHING)))
        return status

    def finish(self, test: DistTest, status: dict[str, Any]) -> None:
        body = self.cluster.objects[Kind.RUN, "gpu-ci", test.name] | {"status": status}
        self.caches.put(Kind.RUN, self.cluster.put(Kind.RUN, body), at(21))

    def settle(self) -> None:
        asyncio.run(self.ledgers.settle("gpu-ci", "adhoc"))
        self.cluster.collect_garbage()

    def delete(self, test: DistTest) -> None:
        body = self.cluster.objects.pop((Kind.RUN, "gpu-ci", test.name))
        self.caches.remove(Kind.RUN, body, at(30))
        self.cluster.collect_garbage()

    @property
    def reports(self) -> list[str]:
        """Those that are there."""
        return [name.removesuffix("-report") for kind, _, name in self.cluster.objects if kind is Kind.CONFIG_MAP]

    @property
    def listed(self) -> list[str]:
        """The reports that the ledger lists."""
        return [run["report"].removesuffix("-report") for run in self.status["runs"] if "report" in run]

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.objects[Kind.SERIES, "gpu-ci", "adhoc"]["status"]
        return status

    def writes(self, words: str) -> int:
        return sum(done.startswith(words) for done in self.cluster.done)


def test_the_newest_reports_stay_when_their_runs_go() -> None:
    series = KeptSeries(most=3)
    for _ in range(5):
        series.run()
    assert series.reports == series.listed == ["run-2", "run-3", "run-4"]
    newest = series.status["runs"][-1]
    assert (newest["report"], newest["reportSha256"]) == ("run-4-report", SHA256)
    body = series.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "run-4-report"]
    assert [owner["kind"] for owner in body["metadata"]["ownerReferences"]] == ["DistTestSeries"]
    assert "binaryData" in body


def test_a_run_without_a_report_pushes_none_out() -> None:
    series = KeptSeries(most=2)
    for has_report in (True, False, False, True):
        series.run(has_report=has_report)
    assert series.reports == ["run-0", "run-3"]


def test_the_report_of_a_run_that_is_still_there_is_never_taken_from_it() -> None:
    series = KeptSeries(most=2)
    first = series.run(is_gone=False)
    for _ in range(4):
        series.run()
    assert series.reports == ["run-0", "run-3", "run-4"]
    assert series.listed == ["run-3", "run-4"], "the series has given it back"
    series.delete(first)
    assert series.reports == ["run-3", "run-4"]


def test_the_steady_state_takes_two_writes_of_reports_and_none_more_of_the_ledger() -> None:
    series = KeptSeries(most=2)
    for _ in range(4):
        series.run()
    series.cluster.done.clear()
    series.run()
    assert series.cluster.done == [
        "create configmaps run-4-report",
        "patch disttestseries adhoc",
        "own configmaps run-4-report",
        "own configmaps run-2-report",
        "patch disttestseries adhoc",
    ]
    series.settle()
    assert series.writes("") == 5, "nothing is left to do"


def test_zero_keeps_nothing_and_costs_nothing() -> None:
    series = KeptSeries(most=0)
    series.run()
    assert (series.reports, series.listed) == ([], [])
    assert series.writes("own") == 0


@pytest.mark.parametrize(("most", "left"), [(1, ["run-2"]), (0, [])])
def test_an_operator_that_retains_fewer_reports_releases_the_others(most: int, left: list[str]) -> None:
    series = KeptSeries()
    for _ in range(3):
        series.run()
    series.start(most=most)
    series.settle()
    assert series.reports == series.listed == left


def test_when_the_series_goes_its_reports_go_too() -> None:
    series = KeptSeries()
    series.run()
    kept = series.run(is_gone=False)
    del series.cluster.objects[Kind.SERIES, "gpu-ci", "adhoc"]
    series.cluster.collect_garbage()
    assert series.reports == ["run-1"], "its run is still there"
    series.delete(kept)
    assert series.reports == []


def test_no_report_falls_out_of_the_ledger_with_its_run() -> None:
    """So many are kept as the ledger lists runs: the oldest must go before the ledger forgets it."""
    series = KeptSeries(most=ledger.RUNS)
    for _ in range(ledger.RUNS + 2):
        series.run()
    assert len(series.reports) == ledger.RUNS
    assert series.reports == series.listed
    assert series.reports[0] == "run-2"


def test_many_runs_that_end_together_leave_only_what_the_ledger_lists() -> None:
    series = KeptSeries(most=2)
    tests = [series.begin() for _ in range(5)]
    statuses = [series.count_in(test) for test in tests]
    series.settle()
    assert series.listed == ["run-0", "run-1", "run-2", "run-3", "run-4"], "none of them has its verdict yet"
    for test, status in zip(tests, statuses, strict=True):
        asyncio.run(series.retention.keep(test))
        series.finish(test, status)
    series.settle()
    assert series.listed == ["run-3", "run-4"]
    for test in tests:
        series.delete(test)
    assert series.reports == ["run-3", "run-4"]


def test_a_run_that_is_deleted_before_it_is_counted_leaves_no_report() -> None:
    series = KeptSeries()
    test = series.begin()
    body = series.cluster.objects.pop((Kind.RUN, "gpu-ci", test.name))
    series.count_in(test)
    asyncio.run(series.retention.keep(test))
    series.cluster.collect_garbage()
    assert body["metadata"]["uid"] == test.uid
    assert series.reports == []


def test_what_the_ledger_does_not_list_is_not_kept() -> None:
    """As of a run that an older operator has counted: it would never be released."""
    series = KeptSeries(most=0)
    test = series.begin()
    series.count_in(test)
    series.start(most=10)
    asyncio.run(series.retention.keep(test))
    assert series.writes("own") == 0


@pytest.mark.parametrize("labels", [None, {}, {naming.LABEL_UID: "of-another"}], ids=["none", "empty", "another's"])
def test_a_config_map_of_the_same_name_and_another_owner_is_not_changed(labels: dict[str, str] | None) -> None:
    series = KeptSeries(most=1)
    series.run(is_gone=False)
    where = (Kind.CONFIG_MAP, "gpu-ci", "run-0-report")
    meta = {"name": "run-0-report", "namespace": "gpu-ci", "uid": "foreign", "labels": labels}
    foreign = series.cluster.put(Kind.CONFIG_MAP, {"metadata": meta, "data": {"theirs": "x"}})
    series.run()
    assert series.cluster.objects[where] == foreign
    assert series.listed == ["run-1"]


def test_a_report_that_was_deleted_by_hand_is_not_mistaken_for_that_of_a_later_run_of_the_name() -> None:
    series = KeptSeries(most=1)
    first = series.run()
    del series.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "run-0-report"]
    series.count = 0
    again = series.begin(uid="another")
    series.end(again)
    assert again.name == first.name
    assert [(run["uid"], "report" in run) for run in series.status["runs"]] == [(first.uid, False), ("another", True)]
    series.delete(again)
    assert series.reports == ["run-0"]


def test_a_report_that_is_kept_or_was_never_kept_is_not_written_again() -> None:
    series = KeptSeries(most=1)
    first = series.run(is_gone=False)
    asyncio.run(series.retention.keep(first))
    assert series.writes("own") == 1
    series.cluster.refuses_patches = {Kind.CONFIG_MAP}
    second = series.run(is_gone=False)
    series.cluster.refuses_patches = set()
    series.settle()
    series.run()
    assert [run.name for run in (first, second)] == ["run-0", "run-1"]
    assert series.cluster.done.count("own configmaps run-0-report") == 2, "it was given back"
    assert series.cluster.done.count("own configmaps run-1-report") == 0
    assert series.listed == ["run-2"]


def test_an_operator_without_the_permission_logs_that_once_and_continues(caplog: pytest.LogCaptureFixture) -> None:
    """One that was upgraded before its role: reports go with their runs, as they did."""
    series = KeptSeries(most=1)
    series.cluster.refuses_patches = {Kind.CONFIG_MAP}
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            series.run()
    assert series.reports == []
    assert series.listed == ["run-2"]
    [line] = [record.getMessage() for record in caplog.records]
    assert line == (
        "gpu-ci: owners of reports cannot be changed (see manifests/rbac/runs), so reports are not retained: "
        "PATCH configmaps: 403 forbidden"
    )
    assert series.status["runCount"] == 3


def test_a_revoked_permission_leaves_reports_until_it_is_granted_again() -> None:
    series = KeptSeries(most=1)
    series.run()
    series.cluster.refuses_patches = {Kind.CONFIG_MAP}
    series.run()
    assert series.reports == ["run-0"]
    assert series.listed == ["run-0", "run-1"]
    series.cluster.refuses_patches = set()
    series.settle()
    assert (series.reports, series.listed) == ([], ["run-1"])


class Broken(FakeCluster):
    """ConfigMaps cannot be changed, as behind a webhook that does not answer."""

    error: Exception | None = None

    @override
    async def patch_owners(self, *args: Any, **more: Any) -> None:
        if self.error:
            raise self.error
        await super().patch_owners(*args, **more)


def test_reports_that_cannot_be_released_now_do_not_block_other_entries() -> None:
    series = KeptSeries(most=1)
    series.cluster = Broken()
    series.start(most=1)
    series.run()
    test = series.begin()
    status = series.count_in(test)
    asyncio.run(series.retention.keep(test))
    series.finish(test, status)
    series.cluster.error = ApiServerError("no answer")
    series.settle()
    assert series.status["pending"] == []
    assert series.listed == ["run-0", "run-1"]
    series.cluster.error = None
    series.settle()
    assert series.listed == ["run-1"]


def test_a_report_that_the_garbage_collector_was_writing_is_checked_again() -> None:
    series = KeptSeries(most=1)
    series.cluster = Broken()
    series.start(most=1)
    series.run()
    series.run()
    series.start(most=0)
    series.cluster.error = ConflictError("was changed")
    with pytest.raises(ConflictError):
        series.settle()
    series.cluster.error = None
    series.settle()
    assert series.reports == []


def test_another_run_of_the_same_name_finds_a_name_for_its_report() -> None:
    """That of the run before is kept: neither may be lost."""
    world = OperatorWorld()
    older = a_test(uid="99999999-8888-7777-6666-555555555555")
    kept = job.build_report_config_map(older, naming.report_config_map(older), b"packed", SHA256)
    kept["metadata"]["ownerReferences"] = [job.series_owner("adhoc", "series-uid")]
    before = world.cluster.put(Kind.CONFIG_MAP, kept)
    live(world)
    assert world.status["report"]["configMap"] == "nightly-report-11111111"
    assert [run["report"] for run in world.ledger["runs"]] == ["nightly-report-11111111"]
    assert world.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "nightly-report"] == before
    made = world.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "nightly-report-11111111"]
    assert [owner["kind"] for owner in made["metadata"]["ownerReferences"]] == ["DistTest", "DistTestSeries"]


@pytest.mark.parametrize("is_log_gone", [False, True])
def test_a_report_under_another_name_is_found_again_after_a_crash(*, is_log_gone: bool) -> None:
    world = OperatorWorld()
    world.cluster.put(Kind.CONFIG_MAP, {"metadata": {"name": "nightly-report", "namespace": "gpu-ci"}})
    world.cluster.cut = 7  # after the report's ConfigMap
    with pytest.raises(PowerCut):
        live(world)
    assert world.cluster.done[-1] == "create configmaps nightly-report-11111111"
    world.cluster.cut = None
    if is_log_gone:
        world.cluster.logs.clear()
    world.start()
    world.look()
    assert world.status["verdict"] == "Passed"
    assert world.status["report"]["configMap"] == "nightly-report-11111111"
    assert len([kind for kind, _, _ in world.cluster.objects if kind is Kind.CONFIG_MAP]) == 2


def test_with_both_names_taken_the_run_has_its_verdict_and_says_so() -> None:
    world = OperatorWorld()
    for name in ("nightly-report", f"nightly-report-{UID[:8]}"):
        world.cluster.put(Kind.CONFIG_MAP, {"metadata": {"name": name, "namespace": "gpu-ci"}})
    live(world)
    assert world.status["verdict"] == "Passed"
    assert "report" not in world.status
    words = [one["message"] for one in world.status["conditions"] if one["type"] == "ResultsCollected"]
    assert "are ConfigMaps of other owners" in words[0]


def test_a_run_shows_no_verdict_before_its_report_is_the_series() -> None:
    """Its time to live may be nothing."""
    world = OperatorWorld(ttlSecondsAfterFinished=0)
    live(world)
    assert (Kind.RUN, "gpu-ci", "nightly") not in world.cluster.objects
    world.cluster.collect_garbage()
    assert (Kind.CONFIG_MAP, "gpu-ci", "nightly-report") in world.cluster.objects
    done = world.cluster.done
    assert done.index("own configmaps nightly-report") < done.index("delete disttests nightly")
