"""status.bandwidth, and the operator's own look at thresholds: those of the spec, whatever a report says."""

import dataclasses
import json
import math
from typing import Any

import pytest
import yaml

from disttest_contract import limits
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.measurement import Measurement
from disttest_contract.results.report import CaseResult, Report
from disttest_contract.results.thresholds import Threshold
from disttest_contract.results.trimming import RULES
from disttest_operator.core.api.model import DistTest
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.status import status
from disttest_operator.core.verdict import classify, report_check
from disttest_operator.core.workload import run_plan
from tests.support.builders.measured import GB, GIB, a_measured_case, a_measurement, a_threshold
from tests.support.builders.runs import a_report_of, a_spec, a_test, an_ended_pod, evidence, found
from tests.support.fakes import openapi
from tests.support.paths import ROOT

CRD = yaml.safe_load((ROOT / "manifests/crd/disttests.yaml").read_text())
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
WANTED = (a_threshold(),)
SILENT = "thresholds::all_reduce[1073741824]"


def a_run(*wanted: Threshold) -> DistTest:
    return a_test(spec=a_spec(thresholds=wanted))


def an_end(report: Report, *wanted: Threshold) -> Evidence:
    pods = (an_ended_pod(0, 0, seconds=19), an_ended_pod(1, 0, seconds=19))
    return evidence(*pods, test=a_run(*wanted), report=found(report))


def measured(*measurements: Measurement, **changes: Any) -> Report:
    return a_report_of(a_measured_case(*measurements, **changes))


def test_the_plan_of_the_gang_has_the_thresholds_of_the_spec() -> None:
    assert run_plan.run_plan(a_run(*WANTED), 1).thresholds == WANTED


def test_each_row_has_what_is_known_and_nothing_else() -> None:
    report = measured(a_measurement(380 * GB), a_measurement(5.5, collective="gather", dtype="int64", size_bytes=8))
    wanted = (a_threshold(), a_threshold(collective="scatter"), a_threshold(dtype="bfloat16"))
    look = an_end(report, *wanted)
    ending = classify(look)
    assert ending is not None
    last = status.finished(look, ending)
    silent = {"sizeBytes": GIB, "thresholdBytesPerSecond": 400 * GB, "ok": False}
    assert last["bandwidth"] == [
        {"collective": "scatter", **silent},
        {"collective": "all_reduce", "dtype": "bfloat16", **silent},
        {"collective": "all_reduce", "dtype": "float32", "busBandwidthBytesPerSecond": 380e9, **silent},
        {"collective": "gather", "dtype": "int64", "sizeBytes": 8, "busBandwidthBytesPerSecond": 5.5, "ok": True},
    ]
    assert list(openapi.problems(SCHEMA, last)) == []
    assert "bandwidth" not in status.without_details(last)


def test_a_run_that_measures_nothing_and_needs_not_has_no_rows() -> None:
    report = a_report_of(CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=1.0))
    look = an_end(report)
    ending = classify(look)
    assert ending is not None
    assert "bandwidth" not in status.finished(look, ending)


EXCUSED: dict[str, Any] = {"outcome": Outcome.FAILED, "quarantined": True}
GOOD = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=1.0)
# A passing report -> which of its measurements miss the threshold
PASSES: dict[str, tuple[Report, str]] = {
    "reached": (measured(a_measurement()), ""),
    "missed": (measured(a_measurement(380 * GB)), "float32: 380.0 GB/s bus bandwidth, below the threshold of 400.0"),
    "reached, and another size is slow": (
        measured(a_measurement(), a_measurement(380 * GB, size_bytes=8)), "",
    ),
    "nothing measured": (measured(), "all_reduce of 1 GiB was not measured"),
    "several missed": (
        measured(a_measurement(1), a_measurement(2, dtype="int64")), "below the threshold of 400.0 GB/s, and 1 more",
    ),
    "no number": (measured(a_measurement(math.nan)), "was not measured"),
    "without end": (measured(a_measurement(math.inf)), "was not measured"),
    "missed in quarantine": (a_report_of(GOOD, a_measured_case(a_measurement(380 * GB), **EXCUSED)), ""),
    "missed in quarantine and outside of it": (
        a_report_of(
            a_measured_case(a_measurement(380 * GB), **EXCUSED), a_measured_case(a_measurement(1), name="test_c")
        ),
        "below the threshold",
    ),
    "silence in quarantine": (a_report_of(GOOD, dataclasses.replace(GOOD, id=SILENT, **EXCUSED)), ""),
    "a case of the name alone": (a_report_of(GOOD, dataclasses.replace(GOOD, id=SILENT)), "was not measured"),
}  # fmt: skip  # a row reads as a sentence


@pytest.mark.parametrize(("report", "words"), PASSES.values(), ids=PASSES.keys())
def test_a_report_that_passes_is_held_to_the_thresholds_of_the_spec(report: Report, words: str) -> None:
    """Of a runner that knows no thresholds, or written by code under test."""
    assert report.verdict is Verdict.PASSED
    ending = classify(an_end(report, *WANTED))
    assert ending is not None
    expected = (Verdict.TESTS_FAILED, Reason.CASES_FAILED) if words else (Verdict.PASSED, Reason.ALL_CASES_PASSED)
    assert (ending.verdict, ending.reason) == expected, ending.message
    assert words in ending.message
    assert ("check that --runner-image of the operator" in ending.message) is bool(words)
    free = classify(an_end(report))
    assert free is not None
    assert free.verdict is Verdict.PASSED, "no threshold, nothing to miss"


def test_a_report_of_a_failure_has_its_own_message() -> None:
    report = measured(a_measurement(1), outcome=Outcome.FAILED, message="why")
    ending = classify(an_end(report, *WANTED))
    assert ending is not None
    assert (ending.verdict, ending.message) == (Verdict.TESTS_FAILED, report.message)


FORGED = [  # numbers that are none, or beyond all others, are refused with the whole report
    a_measurement(-1.0, size_bytes=2),
    a_measurement(size_bytes=0),
    a_measurement(size_bytes=-8),
    a_measurement(size_bytes=10**17),
    a_measurement(collective="x" * 10_000),
    a_measurement(collective="all_reduce\n"),
    a_measurement(dtype="\x00"),
    a_measurement(dtype=""),
]


def test_what_test_code_forges_is_not_in_the_status() -> None:
    report = Report.loads(measured(*FORGED, a_measurement(1e17, size_bytes=3)).dumps())
    look = an_end(report, *WANTED)
    ending = classify(look)
    assert ending is not None
    assert ending.verdict is Verdict.TESTS_FAILED
    last = status.finished(look, ending)
    assert [(row["sizeBytes"], row.get("busBandwidthBytesPerSecond"), row["ok"]) for row in last["bandwidth"]] == [
        (GIB, None, False),
        (3, 1e17, True),
    ]
    assert list(openapi.problems(SCHEMA, last)) == []
    json.dumps(last, allow_nan=False)


def test_rows_are_few_whatever_was_measured_and_those_left_out_are_the_better_ones() -> None:
    sizes = range(1, limits.THRESHOLDS + 1)
    report = measured(*(a_measurement(size * GB, size_bytes=size, dtype=kind) for size in sizes for kind in KINDS))
    rows = report_check.bandwidth_rows(report, [a_threshold(100 * GB, size_bytes=size) for size in sizes])
    assert len(rows) == limits.BANDWIDTHS
    assert max(row["sizeBytes"] for row in rows) == limits.BANDWIDTHS // len(KINDS)


KINDS = ("float32", "bfloat16")


def test_a_stored_report_comes_to_the_same_however_short_it_had_to_be() -> None:
    """Another operator reads it from its ConfigMap when the log is gone."""
    report = measured(a_measurement())
    short = report.to_json()
    for _, trim in RULES:
        trim(short)
    kept = Report.loads(json.dumps(short).encode())
    assert report_check.missed_thresholds(kept, WANTED) == report_check.missed_thresholds(report, WANTED) == ""
