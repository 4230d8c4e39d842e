"""The table at the end of a run."""

import dataclasses

from disttest_cli.formats.table import render_report
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import CaseResult, Earlier, Report, SuiteResult

GOOD = CaseResult(id="t.py::test_a", outcome=Outcome.PASSED, seconds=0.1)
CRASH = CaseResult(
    id="t.py::test_b",
    outcome=Outcome.CRASHED,
    seconds=2,
    message="rank 1 on node-a was killed by SIGSEGV during the case",
    ranks=(1,),
    nodes=("node-a",),
    signal="SIGSEGV",
)
SKIPPED = CaseResult(id="t.py::test_c", outcome=Outcome.SKIPPED, seconds=0)
NOT_RUN = CaseResult(id="t.py::test_d", outcome=Outcome.NOT_RUN, seconds=0)
GREEN = SuiteResult(
    name="green",
    verdict=Verdict.PASSED,
    reason=Reason.ALL_CASES_PASSED,
    message="1 of 2 cases passed",
    seconds=1.25,
    cases=(GOOD, SKIPPED),
)
RED = SuiteResult(
    name="red-suite",
    verdict=Verdict.TESTS_FAILED,
    reason=Reason.CASES_CRASHED,
    message="x",
    seconds=22,
    cases=(GOOD, CRASH, NOT_RUN),
)
BROKEN = SuiteResult(
    name="broken",
    verdict=Verdict.ERRORED,
    reason=Reason.COLLECTION_FAILED,
    message="no module x",
    seconds=0.5,
    cases=(),
)
REPORT = Report(
    namespace="ns",
    name="nightly",
    uid="u",
    attempt=1,
    backend="gloo",
    nodes=2,
    ranks_per_node=2,
    node_names=("node-a", "node-b"),
    versions={"torch": "2.13.0", "pytest": "9"},
    verdict=Verdict.ERRORED,
    reason=Reason.COLLECTION_FAILED,
    message="broken: no module x\nand more",
    started=100.0,
    joined=101.0,
    first_case=103.5,
    last_case=129.0,
    finished=129.1,
    generations=5,
    suites=(GREEN, RED, BROKEN),
)
EXPECTED = """\
ns/nightly, attempt 1: 2 nodes x 2 ranks with gloo (torch 2.13.0)

SUITE      VERDICT      CASES  PASSED  FAILED  NOT RUN  OTHER  SECONDS
green      Passed           2       1       0        0      1      1.2
red-suite  TestsFailed      3       1       1        1      0     22.0
broken     Errored          0       0       0        0      0      0.5
total      Errored          5       2       1        1      1     29.1
FAILED: failed, errored, crashed or hung outside of quarantine. OTHER: skipped, or expected to fail.

broken: CollectionFailed
    no module x

red-suite: t.py::test_b: crashed after 2.00 s (SIGSEGV rank 1 on node-a)
    rank 1 on node-a was killed by SIGSEGV during the case

timing: joined 1.0 s, first case 2.5 s, cases 25.5 s, end 0.1 s, total 29.1 s; ranks restarted 2 times
Errored (CollectionFailed): broken: no module x
"""


def test_a_report_reads_like_this() -> None:
    assert render_report(REPORT) == EXPECTED


def test_a_run_that_never_began_is_shown_as_well() -> None:
    empty = dataclasses.replace(
        REPORT, joined=None, first_case=None, last_case=None, suites=(BROKEN,), versions={}, message=""
    )
    text = render_report(empty)
    assert "timing: total 29.1 s" in text
    assert text.endswith("Errored (CollectionFailed): \n")


def test_flaky_cases_stand_after_failures_with_all_their_tries() -> None:
    tries = (
        Earlier(outcome=Outcome.CRASHED, seconds=1, message="rank 1 was killed", ranks=(1,), nodes=("node-a",)),
        Earlier(outcome=Outcome.FAILED, seconds=1, message="not again"),
    )
    flaky = dataclasses.replace(GOOD, id="t.py::test_f", earlier=tries)
    text = render_report(dataclasses.replace(REPORT, suites=(dataclasses.replace(RED, cases=(flaky, CRASH)),)))
    line = "red-suite: t.py::test_f: flaky: crashed rank 1 on node-a; then failed; then passed\n    rank 1 was killed\n"
    assert line in text
    assert text.index("test_b: crashed") < text.index(line)
    many = tuple(dataclasses.replace(flaky, id=f"c{n}") for n in range(30))
    text = render_report(dataclasses.replace(REPORT, suites=(dataclasses.replace(RED, cases=many),)))
    assert "10 more flaky cases" in text


def test_many_failures_are_counted_not_listed() -> None:
    many = dataclasses.replace(RED, cases=tuple(dataclasses.replace(CRASH, id=f"c{n}") for n in range(30)))
    text = render_report(dataclasses.replace(REPORT, suites=(many,)))
    assert text.count("killed by SIGSEGV") == 20
    assert "10 more failures" in text


def test_known_failures_have_a_column_of_their_own_and_a_line_each_at_the_end() -> None:
    known = dataclasses.replace(CRASH, id="t.py::test_known", quarantined=True)
    suites = (GREEN, dataclasses.replace(RED, cases=(known, GOOD, CRASH)))
    text = render_report(dataclasses.replace(REPORT, suites=suites))
    assert "CASES  PASSED  FAILED  QUARANTINED  NOT RUN  OTHER  SECONDS\n" in text
    assert "green      Passed           2       1       0            0        0      1      1.2\n" in text
    assert "red-suite  TestsFailed      3       1       1            1        0      0     22.0\n" in text
    line = "\n\nred-suite: t.py::test_known: in quarantine: crashed after 2.00 s (SIGSEGV rank 1 on node-a)\n"
    assert text.index("test_b: crashed") < text.index(line)
    many = tuple(dataclasses.replace(known, id=f"c{n}") for n in range(30))
    text = render_report(dataclasses.replace(REPORT, suites=(dataclasses.replace(RED, cases=many),)))
    assert "10 more cases in quarantine in the report" in text


def test_what_the_report_has_left_out_is_said_and_nothing_steers_the_terminal() -> None:
    case = dataclasses.replace(CRASH, id="t.py::test[\x1b[31m\n]", message="\x1b[2J\rgone")
    report = dataclasses.replace(REPORT, suites=(dataclasses.replace(RED, cases=(case,)),), trimmed="good\x07 cases")
    text = render_report(report)
    assert "omitted from the report because of its size: good\\x07 cases" in text
    assert "t.py::test[\\x1b[31m\\n]: crashed" in text
    assert not [one for one in set(text) if not (one.isprintable() or one == "\n")]
