"""A status stays within 64 KiB, whatever a run was like; what was left out is said."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from disttest_contract import limits
from disttest_contract.outcomes import Counts, Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, SuiteResult
from disttest_contract.transport import progress as protocol
from disttest_operator.core.api import conditions
from disttest_operator.core.api.model import Suite
from disttest_operator.core.observed.evidence import ReportFound
from disttest_operator.core.series import ledger
from disttest_operator.core.status import progress, size_limits, status
from disttest_operator.core.verdict.rule import Ending, Retry
from tests.support.builders.runs import a_pod, a_report, a_spec, a_test, an_ended_pod, evidence, found
from tests.support.fakes import openapi
from tests.support.paths import ROOT

LIMIT_BYTES = 64 << 10
CRD = yaml.safe_load((ROOT / "manifests/crd/disttests.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
FREE = frozenset({"message", "case", "evidence"})  # texts that tests can bring about; the others are names and words
TIME = "2026-11-21T02:00:00Z"
CASES = 20_000
NODES = 512
CHARACTERS = ["m", "<", "\x00", '"', "\u20ac", "\U0001f4a5"]


def largest(schema: Mapping[str, Any], character: str, name: str = "", number: int = 0) -> Any:
    """A value with every field at its limit."""
    numbers = {"integer": 123_456, "number": 123_456.789, "boolean": True}
    if schema["type"] in numbers:
        return numbers[schema["type"]]
    if schema["type"] == "object":
        return {key: largest(field, character, key, number) for key, field in schema.get("properties", {}).items()}
    if schema["type"] == "array":
        return [largest(schema["items"], character, name, row) for row in range(schema["maxItems"])]
    if schema.get("format") == "date-time":
        return TIME
    if "enum" in schema:
        return max(schema["enum"], key=len)
    fill = character if name in FREE else f"{number:03}x"
    return limits.cut(fill * schema["maxLength"], schema["maxLength"])


def the_largest(character: str) -> dict[str, Any]:
    """Of a run that has ended; conditions as we write them."""
    full: dict[str, Any] = largest(SCHEMA, character)
    condition = {"status": "True", "lastTransitionTime": TIME, "observedGeneration": 1, "reason": "r" * 64}
    message = character * (conditions.MESSAGE_BYTES // len(character.encode()))
    rows = [{**condition, "type": kind.value, "message": message} for kind in conditions.ConditionType]
    return full | {"conditions": rows, "verdict": "TestsFailed", "progress": None}


@pytest.mark.parametrize("character", CHARACTERS, ids=ascii)
def test_a_terminal_status_with_every_field_at_its_limit_is_cut_to_64_kib(character: str) -> None:
    full = the_largest(character)
    assert size_limits.size(full) > LIMIT_BYTES
    entry = ledger.make_entry(uid="u", name="nightly", status=full)
    short = entry["status"]
    assert size_limits.size(short) <= LIMIT_BYTES
    assert list(openapi.problems(SCHEMA, short)) == []
    assert "(omitted because of the size limit, see the report: " in short["message"]
    assert entry["message"] == short["message"]
    numbers = (
        "cases",
        "stepSeconds",
        "duration",
        "durationSeconds",
        "attempt",
        "retries",
        "report",
        "verdict",
        "reason",
    )
    assert {key: short[key] for key in numbers} == {key: full[key] for key in numbers}
    assert [suite["cases"] for suite in short["suites"]] == [suite["cases"] for suite in full["suites"]]
    names = [row["name"] for row in full["suspectNodes"]]
    assert [row["name"] for row in short["suspectNodes"]] == names, "the ledger counts by these"
    assert [row["reason"] for row in short["attempts"]] == [row["reason"] for row in full["attempts"]]


def test_the_most_important_details_stay_longest() -> None:
    full = the_largest("m")
    failures = [{**row, "nodes": [f"node-{number:03}" for number in range(16)]} for row in full["failures"]]
    full |= {"failures": failures, "attempts": full["attempts"][:1], "suspectNodes": [], "suites": full["suites"][:5]}
    short = size_limits.finished(full, {})
    assert [(row["case"], row["message"]) for row in short["failures"]] == [
        (row["case"], row["message"]) for row in failures
    ]
    assert [len(row["ranks"]) for row in short["failures"]] == [size_limits.FEW] * 20
    said = "most nodes of attempts, most ranks and nodes of failures, parts of messages of suites and attempts)"
    assert short["message"].endswith(said)


def test_a_status_that_fits_stays_as_it_is() -> None:
    last = status.finished(evidence(an_ended_pod(0, 0), an_ended_pod(1, 0), report=found(a_report())), an_ending())
    assert size_limits.finished(last, {}) == last


def test_what_stays_of_the_status_before_counts_too() -> None:
    """A merge patch keeps fields that are absent."""
    before = {"attempts": the_largest("m")["attempts"]}
    last = status.finished(evidence(an_ended_pod(0, 0), an_ended_pod(1, 0), report=found(a_report())), an_ending())
    last.pop("attempts", None)
    short = size_limits.finished(last, before)
    assert size_limits.size({**before, **short}) <= LIMIT_BYTES
    assert "most nodes of attempts" in short["message"]
    assert size_limits.size(before) > LIMIT_BYTES


def an_ending() -> Ending:
    return Ending(verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, message="\x00" * 4096)


def test_twenty_thousand_cases_that_fail_on_512_nodes_in_32_suites_fit() -> None:
    names = [f"s{number:02}{'-' * 60}" for number in range(32)]
    nodes = tuple(f"node-{number:03}.{'x' * 200}" for number in range(NODES))
    case = CaseResult(
        id="", outcome=Outcome.CRASHED, seconds=1.0, message="<" * 4096, ranks=(*range(NODES),), nodes=nodes
    )
    suites = tuple(
        SuiteResult(
            name=name,
            verdict=Verdict.TESTS_FAILED,
            reason=Reason.CASES_CRASHED,
            seconds=1.0,
            message="<" * 4096,
            cases=tuple(replace(case, id=f"{name}{number:06}{'<' * 600}") for number in range(CASES // 32)),
        )
        for name in names
    )
    spec = a_spec(
        nodes=NODES, ranks_per_node=1, suites=tuple(Suite(name=name, builtin="collectives") for name in names)
    )
    report = a_report(suites=suites, nodes=NODES, ranks_per_node=1, verdict=Verdict.TESTS_FAILED)
    pods = [an_ended_pod(index, 20, node=nodes[index], message="<" * 4096) for index in range(NODES)]
    records = the_largest("<")["attempts"][:7]
    look = evidence(
        *pods,
        test=a_test({"attempts": records}, spec=spec),
        report=ReportFound(report=report, raw=b"", sha256="0" * 64),
    )
    last = status.finished(look, an_ending())
    assert size_limits.size(last) > LIMIT_BYTES
    short = ledger.make_entry(uid="u", name="nightly", status=last, before=look.test.status)["status"]
    assert size_limits.size(short) <= LIMIT_BYTES
    assert list(openapi.problems(SCHEMA, short)) == []
    assert short["cases"]["crashed"] == CASES
    assert short["cases"] == last["cases"]


@pytest.mark.parametrize("character", CHARACTERS, ids=ascii)
def test_a_run_that_continues_after_seven_attempts_fits_with_its_progress(character: str) -> None:
    full = the_largest(character)
    before = {key: full[key] for key in ("suspectNodes", "retries", "conditions")} | {"attempts": full["attempts"][:7]}
    before["retries"][0]["reason"] = "NodeLost"
    ours = ("Suspended", "GangReady")
    before["conditions"] = [row for row in before["conditions"] if row["type"] in ours]
    message = character * 1024
    pods = [a_pod(0), a_pod(1, phase="Failed")]
    test = a_test(before)
    ending = Ending(verdict=Verdict.INFRA_FAILED, reason=Reason.NODE_LOST, message=message, retry=Retry.CHARGED)
    between = {**before, **status.between_attempts(evidence(*pods, test=test), ending)}
    now = status.unfinished(evidence(a_pod(0), a_pod(1), test=a_test(between))) | {
        "progress": a_wordy_progress(character)
    }
    merged = {key: value for key, value in {**between, **now}.items() if value is not None}
    assert size_limits.size(merged) <= LIMIT_BYTES
    assert list(openapi.problems(SCHEMA, merged)) == []
    assert [row["reason"] for row in merged["attempts"]][-1] == "NodeLost"
    assert all(
        row.get("nodes", ["all"]) == ["all"] or len(row["nodes"]) > size_limits.FEW for row in merged["attempts"][:7]
    )


def a_wordy_progress(character: str) -> dict[str, Any]:
    long = character * 5000
    failure = protocol.Failure(
        suite="s", case=long, outcome=Outcome.CRASHED, ranks=long, nodes=(long,) * 9, message=long
    )
    said = protocol.Progress(
        step=long,
        nodes_joined=10**30,
        suite=long,
        current_case=long,
        cases_done=10**30,
        cases_total=10**30,
        suites_done=10**30,
        counts=Counts(by_outcome={Outcome.PASSED: 10**30, Outcome.FAILED: -5}),
        failures=(failure,) * 9,
    )
    return progress.to_status(said, a_test()) | {"time": TIME}


@pytest.mark.parametrize("character", [*CHARACTERS, "\x1b", "\ud800", "\u202e"], ids=ascii)
def test_progress_is_small_escaped_and_valid_for_the_crd(character: str) -> None:
    shown = a_wordy_progress(character)
    assert list(openapi.problems(SCHEMA["properties"]["progress"], shown)) == []
    assert size_limits.size(shown) <= progress.PROGRESS_BYTES + len(TIME) + 20
    texts = [shown["currentCase"], *(row[key] for row in shown["failures"] for key in ("case", "message", "ranks"))]
    assert all(text.isprintable() for text in texts)
    assert (shown["nodesJoined"], shown["suitesDone"], shown["cases"]["failed"]) == (2, 1, 0)
    assert shown["suite"] is None, "a run has no suite of that name"
