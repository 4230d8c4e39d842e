"""What becomes of runs: whatever pods and code under test say, it is sound, and about this run alone."""

import json
from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from disttest_contract.outcomes import Outcome, Reason, Verdict, judge
from disttest_contract.results.report import InvalidReportError, Report
from disttest_contract.transport.termination_message import Summary
from disttest_operator.controller import reports
from disttest_operator.core.hardware import known_signs, matcher
from disttest_operator.core.observed.evidence import Evidence, ReportFound, ReportLost
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import size_limits, status
from disttest_operator.core.verdict import classify
from disttest_operator.core.verdict.report_check import conclusion, read_report
from disttest_operator.core.verdict.rule import Ending
from tests.support.builders import strategies as some
from tests.support.builders.runs import UID, a_job, a_pod, a_report, a_summary, a_test, an_ended_pod, evidence, found
from tests.support.fakes import openapi
from tests.support.paths import ROOT

CRDS = ROOT / "manifests/crd"


def schema_of(name: str) -> dict[str, Any]:
    crd = yaml.safe_load((CRDS / name).read_text())
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return schema


STATUS = schema_of("disttests.yaml")
LEDGER = schema_of("disttestseries.yaml")


def sound(schema: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    """As it travels: what JSON cannot say would be refused with the whole of it."""
    parsed = json.loads(json.dumps(value, allow_nan=False))
    assert list(openapi.problems(schema, parsed)) == []


log_lines = st.lists(
    st.sampled_from(
        ["[rank 3] ", "[rank 99999] ", "[zygote] ", "[rank ", "DISTTEST-REPORT 00 0 ", "\x0b[rank 3] ", ""]
    ).flatmap(lambda head: st.just("GPU has fallen off the bus").map(head.__add__) | some.texts.map(head.__add__)),
    max_size=6,
).map("\n".join)


@given(log_lines, st.integers(0, 3), st.integers(1, 4))
def test_a_log_blames_only_nodes_with_a_pod_of_the_gang(log: str, index: int, ranks_per_node: int) -> None:
    gang = (a_pod(0), a_pod(1))
    lines = matcher.matching_lines(
        known_signs.KNOWN, matcher.of_log(log.encode(errors="replace"), index, ranks_per_node)
    )
    match = matcher.first_match(known_signs.KNOWN, matcher.collect(gang, (), lines))
    assert match is None or set(match.nodes) <= {"node0", "node1"}


summaries = st.builds(
    a_summary,
    uid=st.sampled_from([UID, "another"]),
    node_index=st.integers(0, 600),
    verdict=st.none() | st.sampled_from(Verdict),
    reason=st.none() | st.sampled_from(Reason),
    message=some.texts,
    current=some.texts,
    first_failure=some.texts,
    report_sha256=some.texts,
)
# What a kubelet passes on; a message that is no summary is the end of a log.
parsed = st.builds(lambda one: Summary.read(one.to_bytes().decode()), summaries) | st.none()
pods = st.one_of(
    st.just(a_pod),
    st.builds(
        lambda code, summary, message, reason: (
            lambda index: an_ended_pod(index, code, summary=summary, message=message, reason=reason)
        ),
        st.integers(0, 255),
        parsed,
        some.texts,
        st.sampled_from(["", "Error", "OOMKilled", "Evicted"]),
    ),
)


@st.composite
def looks(draw: st.DrawFn) -> Evidence:
    """A gang of two, in some state, and what was found of its report."""
    report = draw(st.sampled_from(["none", "lost", "invalid", "found"]))
    seen: dict[str, Any] = {"none": None, "lost": ReportLost(problem=draw(some.texts))}
    seen["invalid"] = ReportLost(problem=draw(some.texts), is_invalid=True)
    seen["found"] = found(Report.loads(draw(some.reports()).dumps())) if report == "found" else None
    gang = (draw(pods)(0), draw(pods)(1))
    return evidence(*gang, report=seen[report], seconds=draw(st.integers(20, 4000)), job=a_job())


@settings(max_examples=60)
@given(looks())
def test_whatever_is_seen_the_status_is_one_that_the_api_server_takes(look: Evidence) -> None:
    sound(STATUS, status.unfinished(look))
    ending = classify(look)
    if ending is None:
        return
    here = {pod.node for pod in look.pods}
    assert set(ending.blamed) <= here, "only nodes where pods of the gang were"
    sound(STATUS, status.between_attempts(look, ending))
    last = status.finished(look, ending)
    entry = ledger.make_entry(uid=UID, name="nightly", status=last)
    sound(STATUS, entry["status"])
    assert size_limits.size(entry["status"]) <= size_limits.STATUS_BYTES
    counted = ledger.fold({}, entry, run_results.of(look, entry["status"]), nodes=2)
    sound(LEDGER, counted)
    if ending.verdict is Verdict.PASSED:
        report = look.report
        assert isinstance(report, ReportFound), "green needs a report"
        assert not [case for suite in report.report.suites for case in suite.cases if case.is_red]


FORGED = json.loads(a_report({"test_a": Outcome.FAILED, "test_b": Outcome.PASSED}).dumps())


@given(some.spoiled(FORGED))
def test_a_forged_report_changes_its_own_run_and_that_soundly(document: Any) -> None:
    raw = some.as_bytes(document)
    report, refusal = some.tried(InvalidReportError, read_report, raw, a_test(), None)
    if report is None:
        assert refusal != "says nothing"
        return
    assert (report.report.uid, report.report.attempt) == (UID, 1)
    verdict, _ = conclusion(report.report)
    assert verdict is not Verdict.PASSED, "the leader said nothing of it"
    look = evidence(an_ended_pod(0, 10), an_ended_pod(1, 0), report=report)
    ending = classify(look)
    assert ending is not None
    assert set(ending.blamed) <= {"node0", "node1"}
    last = ledger.make_entry(uid=UID, name="nightly", status=status.finished(look, ending))
    sound(STATUS, last["status"])
    sound(LEDGER, ledger.fold({}, last, run_results.of(look, last["status"]), nodes=2))
    assert len(reports.pack(report, 4000).gz_bytes) <= 4000


outcomes = st.lists(st.sampled_from(Outcome), min_size=1, max_size=4)
runs = st.lists(outcomes, min_size=1, max_size=5)


def entries_of(each: list[list[Outcome]]) -> list[ledger.Entry]:
    made = []
    for number, of_run in enumerate(each):
        report = a_report({f"test_{place}": outcome for place, outcome in enumerate(of_run)})
        look = evidence(an_ended_pod(0, 0), an_ended_pod(1, 0), report=found(report), seconds=25 + number)
        verdict, reason = judge(report.counts)
        last = status.finished(look, Ending(verdict=verdict, reason=reason, message="m"))
        made.append(ledger.make_entry(uid=f"u{number}", name=f"run-{number}", status=last))
    return made


def folded(entries: list[ledger.Entry]) -> ledger.Status:
    counted: ledger.Status = {}
    for entry in entries:
        counted = ledger.fold(counted, entry, nodes=2)
    return counted


def totals(counted: ledger.Status) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for rows in counted["totals"].values() for row in rows)


@settings(max_examples=30)
@given(runs, st.randoms())
def test_totals_are_the_same_in_any_order_of_runs_and_however_often_one_is_counted(
    each: list[list[Outcome]], random: Any
) -> None:
    entries = entries_of(each)
    once = folded(entries)
    shuffled = entries + entries
    random.shuffle(shuffled)
    again = folded(shuffled)
    assert totals(again) == totals(once)
    assert again["runCount"] == once["runCount"] == len(each)
    settled = ledger.settle(once, [entry["uid"] for entry in entries])
    assert totals(ledger.fold(settled, entries[0], nodes=2)) == totals(once)


@given(st.lists(st.tuples(some.names, st.floats(0, 1e6)), max_size=30), st.integers(2, 5))
def test_a_histogram_counts_each_value_once_in_so_many_rows(values: list[tuple[str, float]], most: int) -> None:
    rows: list[dict[str, Any]] = []
    for name, seconds in values:
        rows = ledger.observe(rows, "verdict", {name: seconds}, most=most)
    assert len(rows) <= most
    assert sum(row["count"] for row in rows) == len(values)
    for row in rows:
        counts = [one["count"] for one in row["buckets"]]
        assert counts == sorted(counts)
        assert max(counts, default=0) <= row["count"]
