"""What real nodes reported about failed runs, given to the rules: recorded by `DISTTEST_RECORD=1 make e2e`."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from disttest_contract.outcomes import Reason
from disttest_contract.results.report import Report
from disttest_operator.cache.cache import Cache
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Defaults, DistTest
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.evidence import Evidence, Observed, ReportFound, ReportLost
from disttest_operator.core.verdict import classify
from disttest_operator.core.verdict.rule import Ending
from tests.support.clusters.evidence import DATA

RECORDS = sorted(DATA.glob("*.json"))
WITH_OPERATOR = "deleted-with-operator"
PATIENCE = timedelta(minutes=2)  # longer than the operator's: all events have come
KINDS = {"pods": Kind.POD, "jobs": Kind.JOB}


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return found


def first_ending(record: dict[str, Any], *, missed: int = 0) -> Ending | None:
    """What the operator would have said first: its caches take event by event, and it judges after each.

    One that starts later lists what there is after the `missed` events.
    """
    caches = Cache(Defaults(image="registry.devcluster/disttest-runner:dev"))
    first = datetime.fromisoformat(record["seen"][0]["at"])
    key = caches.put(Kind.RUN, record["run"], first)
    assert key is not None
    run = caches.run(key.namespace, key.name)
    assert run is not None
    for seen in (*listed(record["seen"][:missed]), *record["seen"][missed:]):
        now = datetime.fromisoformat(seen["at"])
        take = caches.remove if seen["type"] == "DELETED" else caches.put
        take(KINDS[seen["kind"]], seen["object"], now)
        if ending := judge(caches, run.test, record, now):
            return ending
    return judge(caches, run.test, record, now + PATIENCE)


def listed(missed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last of each object, but of those that are gone."""
    newest = {seen["object"]["metadata"]["uid"]: seen for seen in missed}
    return [seen for seen in newest.values() if seen["type"] != "DELETED"]


def judge(caches: Cache, test: DistTest, record: dict[str, Any], now: datetime) -> Ending | None:
    seen = Observed(job=caches.jobs(test).get(naming.job(test, 1)), pods=caches.pods(test))
    evidence = Evidence(test=test, seen=seen, now=now)
    if evidence.has_leader_ended:  # then its log is read
        evidence = replace(evidence, seen=replace(seen, report=the_report(record)))
    return classify(evidence)


def the_report(record: dict[str, Any]) -> ReportFound | ReportLost:
    if record["report"] is None:
        return ReportLost(problem="the leader's log contains no report")
    raw = json.dumps(record["report"]).encode()
    return ReportFound(report=Report.loads(raw), raw=raw, sha256="")


def test_every_fault_of_make_e2e_has_a_record() -> None:
    faults = {"deleted", "deleted-with-operator", "drained", "hungry", "no-image", "restarted", "silent", "starved"}
    assert {record.stem for record in RECORDS} == faults


@pytest.mark.parametrize("name", sorted({record.stem for record in RECORDS} - {WITH_OPERATOR}))
def test_the_rules_judge_a_recorded_end_as_the_operator_did(name: str) -> None:
    assert_judged_as_recorded(load(name))


def test_an_operator_that_starts_after_the_lost_pod_is_gone_reads_the_reason_from_the_job() -> None:
    """One that sees it go blames the node; the one on that node did not live to see it."""
    record = load(WITH_OPERATOR)
    ending = first_ending(record)
    assert ending is not None
    assert ending.reason is Reason.NODE_LOST
    gone = next(number for number, seen in enumerate(record["seen"]) if seen["type"] == "DELETED")
    assert_judged_as_recorded(record, missed=gone + 1)


def assert_judged_as_recorded(record: dict[str, Any], *, missed: int = 0) -> None:
    ending = first_ending(record, missed=missed)
    assert ending is not None
    assert (ending.verdict, ending.reason) == (record["status"]["verdict"], record["status"]["reason"])
