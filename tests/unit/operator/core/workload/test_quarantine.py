"""Known failures, from the list in the namespace to verdict, status and ledger; and code that would be on it."""

import dataclasses
import json
from typing import Any

import pytest

from disttest_contract.gang import environment
from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import CaseResult, Report
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed import decoding
from tests.support.builders.runs import a_flaky_case, a_report_of, at, found
from tests.support.fakes.fake_cluster import PowerCut
from tests.support.fakes.world import RUNNING, SERIES, OperatorWorld, live

GOOD = CaseResult(id="t.py::test_good", outcome=Outcome.PASSED, seconds=0.1)
BAD = CaseResult(id="t.py::test_bad", outcome=Outcome.FAILED, seconds=0.1, message="no", ranks=(1,), nodes=("node0",))
KNOWN = dataclasses.replace(BAD, id="t.py::test_known[a/b-1]", quarantined=True)
HUNG = dataclasses.replace(KNOWN, id="t.py::test_known[2]", outcome=Outcome.HUNG)
LIST = "# torch/issues/1\nt.py::test_known[*]\n"


def a_world(text: str | None = LIST, *, suite: str = "collectives", **spec: Any) -> OperatorWorld:
    """A run that names a list, which is there unless it is None."""
    world = OperatorWorld(quarantine={"configMap": {"name": "known"}}, **spec)
    if text is not None:
        put_list(world, text, suite=suite)
    return world


def put_list(world: OperatorWorld, text: str, *, suite: str = "collectives") -> None:
    world.cluster.put(Kind.CONFIG_MAP, {"metadata": {"name": "known", "namespace": "gpu-ci"}, "data": {suite: text}})


def quarantine_of_gang(world: OperatorWorld, attempt: int = 1) -> tuple[str, ...]:
    """The known failures that the gang got."""
    job = world.cluster.objects[Kind.JOB, "gpu-ci", f"nightly-a{attempt}"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    [plan] = [entry["value"] for entry in container["env"] if entry["name"] == environment.PLAN]
    [suite] = RunPlan.from_json(plan).suites
    return suite.quarantine


def run(world: OperatorWorld, report: Report) -> dict[str, Any]:
    world.report = found(report)
    live(world)
    return world.status


@pytest.mark.parametrize(
    ("world", "reason", "words"),
    [
        (a_world(None), "ReferenceNotFound", "spec.quarantine.configMap.name: ConfigMap 'known' does not exist"),
        (a_world(suite="colectives"), "InvalidSpec", "ConfigMap 'known': key 'colectives' is not a suite of this run"),
        (a_world("*\n"), "InvalidSpec", "key 'collectives', line 1: '*' matches every case"),
        (a_world("\n".join("$" * 500 + str(n) for n in range(200))), "InvalidSpec", "at most 122880 are allowed"),
    ],
    ids=["missing", "another suite", "everything", "too much"],
)
def test_a_list_that_cannot_be_used_ends_the_run_before_a_gang_is_made(
    world: OperatorWorld, reason: str, words: str
) -> None:
    world.look()
    assert (world.status["verdict"], world.status["reason"]) == ("Errored", reason)
    assert words in world.status["message"]
    assert not [done for done in world.cluster.done if "jobs" in done or "services" in done]


def test_the_gang_receives_the_list_and_the_operator_reads_from_the_job_what_it_received() -> None:
    world = a_world()
    world.look()
    assert quarantine_of_gang(world) == ("t.py::test_known[*]",)
    job = decoding.job(world.cluster.objects[Kind.JOB, "gpu-ci", "nightly-a1"])
    assert job.quarantine == {"collectives": ("t.py::test_known[*]",)}


def test_known_failures_do_not_fail_a_run_and_are_counted_listed_and_announced() -> None:
    world = a_world()
    status = run(world, a_report_of(KNOWN, GOOD, HUNG, a_flaky_case()))
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed")
    assert {key: status["cases"][key] for key in ("total", "passed", "failed", "hung", "quarantined")} == {
        "total": 4, "passed": 2, "failed": 1, "hung": 1, "quarantined": 2,
    }  # fmt: skip
    assert status["suites"][0]["cases"]["quarantined"] == 2
    listed = [(row["case"], row.get("quarantined"), row.get("flaky")) for row in status["failures"]]
    assert listed == [("t.py::test_flaky", None, True), (KNOWN.id, True, None), (HUNG.id, True, None)]
    notes = [body["note"] for (kind, _, _), body in world.cluster.objects.items() if kind is Kind.EVENT]
    assert any(note.startswith("AllCasesPassed, 1 flaky, 2 quarantined: ") for note in notes)


def test_in_the_ledger_a_known_failure_still_fails_while_the_series_passes() -> None:
    world = a_world()
    run(world, a_report_of(GOOD, KNOWN))
    [row] = world.ledger["failing"]
    assert (row["case"], row["streak"], row["lastOutcome"]) == (KNOWN.id, 1, "failed")
    assert (world.ledger["lastVerdict"], world.ledger["streak"], world.ledger["passRatePercent"]) == ("Passed", 1, 100)
    rows = {row["outcome"]: row["count"] for row in world.ledger["totals"]["cases"]}
    assert (rows["failed"], rows["passed"]) == (1, 1)
    assert world.ledger["runs"][0]["cases"]["quarantined"] == 1


def test_a_failure_without_quarantine_fails_the_run_and_comes_before_the_known_ones() -> None:
    status = run(a_world(), a_report_of(KNOWN, GOOD, BAD))
    assert (status["verdict"], status["reason"]) == ("TestsFailed", "CasesFailed")
    assert [row["case"] for row in status["failures"]] == [BAD.id, KNOWN.id]
    assert (status["cases"]["failed"], status["cases"]["quarantined"]) == (2, 1)


def test_a_run_without_a_passed_case_does_not_pass() -> None:
    status = run(a_world(), a_report_of(KNOWN))
    assert (status["verdict"], status["reason"]) == ("Errored", "NoCasesPassed")


FORGED = {
    "of a case that is not on the list": (a_world(), BAD),
    "of a run that names no list": (OperatorWorld(), KNOWN),
    "of a list that is empty": (a_world("# nothing\n"), KNOWN),
    "of a case that is like one": (a_world("t.py::test_known[a/b-?]\n"), KNOWN),
    "of a list that came later": (a_world("t.py::test_other\n"), KNOWN),
}


@pytest.mark.parametrize(("world", "case"), FORGED.values(), ids=FORGED.keys())
def test_a_case_that_is_not_in_the_quarantine_list_is_not_excused(world: OperatorWorld, case: CaseResult) -> None:
    forged = dataclasses.replace(case, quarantined=True)
    world.report = found(a_report_of(GOOD, forged))
    world.look()
    put_list(world, "t.py::*\n")  # too late: the gang has its list
    live(world)
    assert (world.status["verdict"], world.status["reason"]) == ("InfraFailed", "ReportInvalid")
    assert f"claims that {case.id} of suite 'collectives' is in quarantine, but" in world.status["message"]


def test_a_pass_that_hides_a_failure_is_rejected() -> None:
    report = a_report_of(GOOD, dataclasses.replace(KNOWN, quarantined=False))
    claims = dataclasses.replace(a_report_of(GOOD), suites=report.suites)
    status = run(a_world(), claims)
    assert (status["verdict"], status["reason"]) == ("InfraFailed", "ReportInvalid")


def test_numbers_of_the_report_itself_excuse_nothing() -> None:
    world = OperatorWorld()
    data = a_report_of(GOOD, BAD).to_json()
    data |= {"verdict": "Passed", "reason": "AllCasesPassed"}
    data["counts"]["quarantined"] = data["suites"][0]["counts"]["quarantined"] = 1
    world.report = dataclasses.replace(world.report, raw=json.dumps(data).encode())
    world.look()
    live(world)
    assert world.status["verdict"] == "InfraFailed"


def test_a_stored_report_is_judged_as_it_was_when_its_job_log_and_list_are_gone() -> None:
    world = a_world()
    world.report = found(a_report_of(GOOD, KNOWN))
    world.cluster.cut = 7  # after the report's ConfigMap
    with pytest.raises(PowerCut):
        live(world)
    assert world.cluster.done[-1] == "create configmaps nightly-report"
    world.cluster.cut = None
    del world.cluster.objects[Kind.CONFIG_MAP, "gpu-ci", "known"]
    del world.cluster.objects[Kind.JOB, "gpu-ci", "nightly-a1"]
    world.cluster.logs.clear()
    world.start()
    world.look()
    world.look(SERIES)
    assert (world.status["verdict"], world.status["cases"]["quarantined"]) == ("Passed", 1)


def test_a_list_that_changes_while_a_gang_runs_is_the_next_attempts() -> None:
    world = a_world("t.py::test_known[*]\n")
    world.look()
    world.pods(**RUNNING)
    world.look()
    put_list(world, "t.py::test_bad\n")
    world.lose_a_node()
    world.look()
    for name in ("pod-0", "pod-1"):
        del world.cluster.objects[Kind.POD, "gpu-ci", name]
    world.now = at(200)
    world.look()
    assert (quarantine_of_gang(world, 2), world.status["attempt"]) == (("t.py::test_bad",), 2)
