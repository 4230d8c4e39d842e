"""From a DistTest to its verdict against a cluster in memory; and with the power cut at every write."""

import asyncio
from typing import Any

import pytest

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult
from disttest_operator.core.api.resources import Kind
from tests.support.builders.runs import UID, a_flaky_case, a_report_of, at, found
from tests.support.fakes.fake_cluster import PowerCut
from tests.support.fakes.world import KEY, RUNNING, SERIES, OperatorWorld, live, pod_body, run_body


def test_a_run_takes_these_writes_and_no_others() -> None:
    world = OperatorWorld()
    world.look()
    assert world.status["phase"] == "Queued"
    world.pods(**RUNNING)
    world.look()
    assert world.status["phase"] == "Running"
    world.finish()
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Passed", "AllCasesPassed")
    assert world.later == [SERIES]
    world.look(SERIES)
    assert world.ledger["pending"] == []
    written = [words for words in world.cluster.done if not words.startswith("create events")]
    assert written == [
        "create services nightly-a1",
        "create jobs nightly-a1",
        "patch disttests nightly",
        "patch disttests nightly",
        "create configmaps nightly-report",
        "create disttestseries adhoc",
        "patch disttestseries adhoc",
        "own configmaps nightly-report",
        "patch disttests nightly",
        "patch disttestseries adhoc",
    ]
    before = len(world.cluster.done)
    world.look()
    world.look(SERIES)
    assert len(world.cluster.done) == before, "a finished run is left alone"


WRITES = 13  # of a run, events included


@pytest.mark.parametrize("cut", [step / 2 for step in range(1, 2 * WRITES + 1)])
def test_a_power_cut_at_any_write_neither_loses_nor_doubles_a_run(cut: float) -> None:
    world = OperatorWorld()
    world.cluster.cut = cut
    with pytest.raises(PowerCut):
        live(world)
    world.cluster.cut = None
    world.start()
    live(world)
    assert (world.status["verdict"], world.status["reason"]) == ("Passed", "AllCasesPassed")
    assert world.ledger["runCount"] == 1
    assert world.ledger["totals"]["runs"] == [{"verdict": "Passed", "reason": "AllCasesPassed", "count": 1}]
    assert [row["count"] for row in world.ledger["totals"]["durations"]] == [1]
    assert world.ledger["pending"] == []
    for kind in (Kind.JOB, Kind.SERVICE, Kind.CONFIG_MAP):
        assert len([key for key in world.cluster.objects if key[0] is kind]) == 1
    [report] = [body for (kind, _, _), body in world.cluster.objects.items() if kind is Kind.CONFIG_MAP]
    assert [owner["kind"] for owner in report["metadata"]["ownerReferences"]] == ["DistTest", "DistTestSeries"]
    assert [run["report"] for run in world.ledger["runs"]] == [report["metadata"]["name"]]


@pytest.mark.parametrize("cut", [step / 2 for step in range(1, 2 * WRITES + 1)])
def test_a_power_cut_at_any_write_neither_loses_nor_doubles_a_streak(cut: float) -> None:
    world = OperatorWorld()
    flaky = a_flaky_case()
    bad = CaseResult(id="t.py::test_bad", outcome=Outcome.CRASHED, seconds=0.5, message="why")
    world.report = found(a_report_of(flaky, bad))
    world.cluster.cut = cut
    with pytest.raises(PowerCut):
        live(world)
    world.cluster.cut = None
    world.start()
    live(world)
    assert (world.status["verdict"], world.status["reason"]) == ("TestsFailed", "CasesCrashed")
    assert [(row["case"], row["streak"]) for row in world.ledger["failing"]] == [("t.py::test_bad", 1)]
    assert [(row["case"], row["outcomes"]) for row in world.ledger["flipping"]] == [("t.py::test_flaky", "f")]
    assert (world.ledger["streak"], world.ledger["passRatePercent"]) == (-1, 0)
    assert world.ledger["pending"] == []


def test_a_whole_run_has_that_many_writes() -> None:
    world = OperatorWorld()
    live(world)
    assert len(world.cluster.done) == WRITES


def test_the_verdict_is_the_ledgers_even_if_the_evidence_has_changed_since() -> None:
    world = OperatorWorld()
    world.look()
    world.pods(**RUNNING)
    world.finish()
    world.look()
    first = dict(world.status)
    world = restarted_before_status(world)
    world.cluster.logs.clear()  # the pods are gone: judged again it would be a missing report
    world.look()
    assert world.status["verdict"] == first["verdict"]
    assert world.ledger["runCount"] == 1


def restarted_before_status(world: OperatorWorld) -> OperatorWorld:
    """As if the power had failed between the ledger and the terminal status."""
    body = world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    body["status"] = {key: value for key, value in body["status"].items() if key in {"attempt", "series"}}
    world.cluster.put(Kind.RUN, body)
    world.start()
    return world


def test_a_run_deleted_before_its_fold_is_not_counted() -> None:
    world = OperatorWorld()
    world.look()
    world.pods(**RUNNING)
    world.finish()
    world.caches.put(Kind.POD, pod_body_now(world), world.now)
    body = world.cluster.objects.pop((Kind.RUN, "gpu-ci", "nightly"))
    world.look()  # the cache still has it
    assert body["metadata"]["uid"] == UID
    assert world.ledger.get("runCount", 0) == 0


def pod_body_now(world: OperatorWorld) -> dict[str, Any]:
    return world.cluster.objects[Kind.POD, "gpu-ci", "pod-0"]


def test_a_job_of_the_same_name_and_another_owner_is_not_changed() -> None:
    world = OperatorWorld()
    stranger = {
        "metadata": {"name": "nightly-a1", "namespace": "gpu-ci"},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    world.cluster.put(Kind.JOB, stranger)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "NameConflict")
    assert "delete jobs nightly-a1" not in world.cluster.done


def test_what_the_api_server_refuses_ends_the_run() -> None:
    world = OperatorWorld()
    world.cluster.refuses.add(Kind.JOB)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "PodsForbidden")


@pytest.mark.parametrize("field", ["failures", "cases"])
def test_a_verdict_is_written_even_if_details_of_the_status_are_rejected(field: str) -> None:
    world = OperatorWorld()
    world.cluster.refuses_in_status.add(field)
    live(world)
    assert (world.status["verdict"], world.status["phase"]) == ("Passed", "Finished")
    assert "Finished" in {condition["type"] for condition in world.status["conditions"]}
    assert "the API server rejected the details" in world.status["message"]
    assert world.ledger["runCount"] == 1
    assert world.ledger["pending"] == []


def test_a_missing_config_map_ends_the_run_before_a_gang_is_made() -> None:
    world = OperatorWorld(suites=[{"name": "mine", "configMap": {"name": "absent"}}])
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "ReferenceNotFound")
    assert not [words for words in world.cluster.done if "jobs" in words or "services" in words]


def test_a_missing_claim_ends_the_run_and_one_that_is_there_does_not() -> None:
    world = OperatorWorld(artifacts={"persistentVolumeClaim": "dumps"})
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "ReferenceNotFound")
    world = OperatorWorld(artifacts={"persistentVolumeClaim": "dumps"})
    world.cluster.put(Kind.CLAIM, {"metadata": {"name": "dumps", "namespace": "gpu-ci"}})
    world.look()
    assert "create jobs nightly-a1" in world.cluster.done


def test_suites_that_are_too_large_for_the_plan_end_the_run_before_a_gang_is_created() -> None:
    env = [{"name": f"V{n}", "value": "x" * 4096} for n in range(31)]
    world = OperatorWorld(suites=[{"name": "collectives", "env": env}])
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "InvalidSpec")
    assert "into several DistTests" in world.status["message"]
    assert not [words for words in world.cluster.done if "jobs" in words]


def test_a_spec_that_slipped_past_admission_gets_its_verdict() -> None:
    world = OperatorWorld(nodes=0)
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", "InvalidSpec")
    assert "spec.nodes" in world.status["message"]


def test_a_job_that_is_gone_by_a_live_read_ends_the_run() -> None:
    world = OperatorWorld()
    world.look()
    del world.cluster.objects[Kind.JOB, "gpu-ci", "nightly-a1"]
    world.start()
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "JobDeleted")


def test_pods_that_continue_after_the_verdict_are_ended_a_little_later() -> None:
    world = OperatorWorld()
    world.look()
    world.pods(**RUNNING)
    world.look()
    world.finish()
    world.cluster.put(Kind.POD, pod_body(1, RUNNING))
    again = world.look()
    assert world.status["verdict"] == "Passed"
    assert again is not None
    assert 0 < again <= world.policy.linger_seconds + 1
    assert "delete jobs nightly-a1" not in world.cluster.done
    world.now = at(40)
    world.look()
    assert world.cluster.done[-1] == "delete jobs nightly-a1"


def test_a_run_whose_time_is_over_is_deleted() -> None:
    world = OperatorWorld(ttlSecondsAfterFinished=100, suites=[{"name": "none-such"}])
    again = world.look()
    assert again == pytest.approx(100, abs=1)
    world.now = at(101)
    world.look()
    assert world.cluster.done[-1] == "delete disttests nightly"


def test_a_run_that_was_given_more_time_meanwhile_is_not_deleted() -> None:
    """By a cache that does not know it yet, such as that of an operator that was frozen."""
    world = OperatorWorld(ttlSecondsAfterFinished=100, suites=[{"name": "none-such"}])
    world.look()
    stale = world.caches
    body = world.cluster.objects[Kind.RUN, "gpu-ci", "nightly"]
    world.cluster.put(Kind.RUN, body | {"spec": body["spec"] | {"ttlSecondsAfterFinished": 10_000}})
    world.now = at(101)
    again = asyncio.run(world.reconciler.reconcile(KEY))
    assert world.caches is stale
    assert (Kind.RUN, "gpu-ci", "nightly") in world.cluster.objects
    assert again == pytest.approx(10_000 - 101, abs=1)


def test_nothing_is_done_for_a_run_that_is_being_deleted() -> None:
    world = OperatorWorld()
    body = run_body()
    body["metadata"]["deletionTimestamp"] = "2026-11-21T02:00:10Z"
    world.cluster.put(Kind.RUN, body)
    world.look()
    assert world.cluster.done == []
