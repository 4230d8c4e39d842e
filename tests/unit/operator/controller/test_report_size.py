import dataclasses
import gzip
import hashlib
import json
import random

from disttest_contract.outcomes import Outcome
from disttest_contract.results.report import Report
from disttest_operator.controller.reports import pack
from tests.support.builders.runs import a_flaky_case, a_report, a_suite, found

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
GENERATOR = random.Random(1)  # noqa: S311  # text that does not shrink, the same each time


def noise(length: int) -> str:
    return "".join(GENERATOR.choices(LETTERS, k=length))


def big_report(cases: int) -> Report:
    outcomes = {
        f"{number}-{noise(60)}": Outcome.FAILED if number % 10 == 0 else Outcome.PASSED for number in range(cases)
    }
    suite = a_suite("collectives", outcomes)
    noisy = tuple(dataclasses.replace(case, message=noise(400), stacks={0: noise(3000)}) for case in suite.cases)
    return a_report(suites=(dataclasses.replace(suite, cases=noisy),))


def test_a_report_that_fits_is_stored_as_it_is() -> None:
    report = found(a_report())
    packed = pack(report)
    assert gzip.decompress(packed.gz_bytes) == report.raw
    assert (packed.sha256, packed.trimmed) == (report.sha256, "")
    assert pack(report) == packed, "the same bytes whenever it is done"


def test_a_large_report_loses_the_least_important_parts_and_names_them() -> None:
    report = found(big_report(200))
    whole = len(gzip.compress(report.raw))
    seen = set()
    for part in (0.8, 0.3, 0.1):
        limit_bytes = int(whole * part)
        packed = pack(report, limit_bytes)
        assert len(packed.gz_bytes) <= limit_bytes
        raw = gzip.decompress(packed.gz_bytes)
        assert hashlib.sha256(raw).hexdigest() == packed.sha256
        assert json.loads(raw)["trimmed"] == packed.trimmed != ""
        kept = Report.loads(raw)
        failed = [case.id for _, case in report.report.failures]
        assert [case.id for _, case in kept.failures] == failed, "what failed is kept"
        seen.add(packed.trimmed)
    assert len(seen) > 1


def test_flaky_cases_outlive_other_passed_ones() -> None:
    report = big_report(100)
    suite = dataclasses.replace(report.suites[0], cases=(*report.suites[0].cases, a_flaky_case()))
    large = found(dataclasses.replace(report, suites=(suite,)))
    packed = pack(large, len(gzip.compress(large.raw)) // 40)
    assert packed.trimmed.endswith("cases that did not fail")
    kept = Report.loads(gzip.decompress(packed.gz_bytes))
    assert kept.counts.flaky == 1
    assert [case.is_flaky for case in kept.suites[0].cases] == [False] * 10 + [True]
    assert kept.counts == large.report.counts, "those that are gone are counted"


def test_what_the_leader_left_out_is_still_said() -> None:
    report = found(dataclasses.replace(a_report(), trimmed="stacks"))
    assert pack(report).trimmed == "stacks"
    report = found(dataclasses.replace(big_report(200), trimmed="stacks"))
    assert pack(report, len(gzip.compress(report.raw)) // 2).trimmed.startswith(
        "stacks; messages of cases that did not"
    )
