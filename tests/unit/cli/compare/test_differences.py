"""What becomes of a case from one report to the next, and what would mislead."""

import dataclasses
from collections.abc import Callable

import pytest

from disttest_cli.compare.differences import compare
from disttest_cli.compare.model import CaseChange, ChangeKind, Comparison
from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.case_result import CaseResult, Earlier
from disttest_contract.results.network_transport import GangTransport, NetworkTransport, TransportFacts
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report
from tests.support.builders.compared import a_case, a_night
from tests.support.builders.runs import a_flaky_case

ID = "t.py::test_x"
FLAKY = dataclasses.replace(a_flaky_case(), id=ID)
QUARANTINED = a_case(ID, Outcome.FAILED, quarantined=True)
OTHER = a_case("t.py::test_other")


def of(one: CaseResult | None) -> list[CaseResult]:
    return [OTHER, *([one] if one else [])]


def compared(before: CaseResult | None, after: CaseResult | None, **changes: str) -> Comparison:
    return compare(a_night(0, {"mine": of(before)}, **changes), a_night(1, {"mine": of(after)}, **changes))


def changes_of(comparison: Comparison) -> list[tuple[ChangeKind, str, str]]:
    return [(kind, one.before, one.after) for kind, those in comparison.changes.items() for one in those]


P, F, S, N = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_RUN
CASES: list[tuple[CaseResult | Outcome | None, CaseResult | Outcome | None, ChangeKind | None]] = [
    (P, P, None),
    (S, N, None),
    (P, Outcome.XFAILED, None),
    (QUARANTINED, QUARANTINED, None),
    (FLAKY, FLAKY, None),
    (P, F, ChangeKind.NEWLY_FAILING),
    (P, Outcome.HUNG, ChangeKind.NEWLY_FAILING),
    (S, F, ChangeKind.NEWLY_FAILING),
    (N, Outcome.CRASHED, ChangeKind.NEWLY_FAILING),
    (None, F, ChangeKind.NEWLY_FAILING),
    (FLAKY, F, ChangeKind.NEWLY_FAILING),
    (QUARANTINED, F, ChangeKind.NEWLY_FAILING),
    (F, Outcome.HUNG, ChangeKind.STILL_FAILING),
    (F, P, ChangeKind.NEWLY_PASSING),
    (Outcome.CRASHED, Outcome.XPASSED, ChangeKind.NEWLY_PASSING),
    (QUARANTINED, P, ChangeKind.NEWLY_PASSING),
    (P, FLAKY, ChangeKind.NEWLY_FLAKY),
    (F, FLAKY, ChangeKind.NEWLY_FLAKY),
    (FLAKY, P, ChangeKind.NO_LONGER_FLAKY),
    (P, QUARANTINED, ChangeKind.IN_QUARANTINE),
    (F, QUARANTINED, ChangeKind.IN_QUARANTINE),
    (P, N, ChangeKind.NO_LONGER_RUN),
    (F, N, ChangeKind.NO_LONGER_RUN),
    (P, S, ChangeKind.NEWLY_SKIPPED),
    (N, P, ChangeKind.NOW_RUN),
    (P, None, ChangeKind.ONLY_IN_A),
    (F, None, ChangeKind.ONLY_IN_A),
    (None, P, ChangeKind.ONLY_IN_B),
    (None, QUARANTINED, ChangeKind.ONLY_IN_B),
]


def a_result(one: CaseResult | Outcome | None) -> CaseResult | None:
    return a_case(ID, one) if isinstance(one, Outcome) else one


@pytest.mark.parametrize(("before", "after", "kind"), CASES)
def test_a_case_is_listed_once_by_its_change(
    before: CaseResult | Outcome | None, after: CaseResult | Outcome | None, kind: ChangeKind | None
) -> None:
    assert [found for found, *_ in changes_of(compared(a_result(before), a_result(after)))] == ([kind] if kind else [])


def test_a_change_says_who_and_what_of_the_worse_of_the_two() -> None:
    bad = a_case(ID, F, message="3 != 4", ranks=(3,), nodes=("node1",))
    failing = compared(a_case(ID), bad).changes[ChangeKind.NEWLY_FAILING]
    passing = compared(bad, a_case(ID)).changes[ChangeKind.NEWLY_PASSING]
    words = {"message": "3 != 4", "ranks": (3,), "nodes": ("node1",)}
    assert failing == (CaseChange(suite="mine", case=ID, before="passed", after="failed", **words),)  # type: ignore[arg-type]
    assert passing == (CaseChange(suite="mine", case=ID, before="failed", after="passed", **words),)  # type: ignore[arg-type]


def test_of_a_flaky_case_it_says_how_the_first_try_ended() -> None:
    tries = (
        Earlier(outcome=F, seconds=1, message="first", ranks=(2,)),
        Earlier(outcome=F, seconds=1, message="second"),
    )
    [one] = compared(a_case(ID), a_case(ID, earlier=tries)).changes[ChangeKind.NEWLY_FLAKY]
    assert (one.before, one.after, one.message, one.ranks) == ("passed", "flaky", "first", (2,))


def test_an_id_that_comes_twice_is_as_bad_as_its_worse_half() -> None:
    a = a_night(0, {"mine": [a_case(ID), a_case(ID)]})
    b = a_night(1, {"mine": [a_case(ID), a_case(ID, F), a_case(ID)]})
    assert changes_of(compare(a, b)) == [(ChangeKind.NEWLY_FAILING, "passed", "failed")]


def test_what_a_cut_report_lacks_is_unknown_and_not_gone() -> None:
    comparison = compared(a_case(ID), None, trimmed="passed cases")
    assert (changes_of(comparison), comparison.unknown) == ([], 1)
    assert changes_of(compared(None, a_case(ID, F), trimmed="passed cases")) == [
        (ChangeKind.NEWLY_FAILING, "unknown", "failed")
    ]
    assert [warning for warning in comparison.warnings if "was trimmed (passed cases)" in warning]


WORSE: list[tuple[CaseResult | None, CaseResult | None, tuple[str, ...]]] = [
    (a_case(ID), a_case(ID, F), ("TestsFailed after Passed", "1 case newly failing")),
    (a_case(ID, F), a_case(ID, F), ()),
    (a_case(ID), a_case(ID, N), ("1 case no longer run",)),
    (a_case(ID), a_case(ID, S), ()),
    (a_case(ID), None, ()),
    (a_case(ID), FLAKY, ()),
    (a_case(ID), QUARANTINED, ()),
]


@pytest.mark.parametrize(("before", "after", "worse"), WORSE)
def test_worse_is_what_newly_fails_or_is_not_reached(
    before: CaseResult | None, after: CaseResult | None, worse: tuple[str, ...]
) -> None:
    assert compared(before, after).worse == worse


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(Verdict.INFRA_FAILED, ChangeKind.NO_LONGER_RUN), (Verdict.TESTS_FAILED, ChangeKind.ONLY_IN_A)],
)
def test_what_a_run_lacks_that_was_broken_off_was_not_reached(verdict: Verdict, kind: ChangeKind) -> None:
    skipped = a_case("t.py::test_skipped", S)
    a = a_night(0, {"mine": [OTHER, a_case(ID, F), skipped]})
    b = a_night(1, {"mine": [OTHER]}, verdict=verdict, reason=Reason.NODE_LOST)
    assert (kind, "failed", "absent") in changes_of(compare(a, b))
    assert (ChangeKind.ONLY_IN_A, "skipped", "absent") in changes_of(compare(a, b))


def test_a_verdict_that_is_no_longer_passed_is_worse_whatever_the_cases_say() -> None:
    lost = a_night(1, {"mine": [OTHER]}, verdict=Verdict.INFRA_FAILED, reason=Reason.NODE_LOST)
    comparison = compare(a_night(0, {"mine": [OTHER]}), lost)
    assert comparison.worse == ("InfraFailed after Passed",)
    assert comparison.warnings == ("B was InfraFailed (NodeLost): cases that it did not reach have no result.",)


MISLEADING: list[tuple[Callable[[Report], Report], str]] = [
    (lambda report: report, "A and B are the same report."),
    (lambda report: dataclasses.replace(report, started=1.0, uid="u"), "A started after B"),
    (lambda report: dataclasses.replace(report, nodes=4), "A ran on 2 nodes x 8 ranks with nccl, B on 4 nodes"),
    (lambda report: dataclasses.replace(report, ranks_per_node=4), "durations and bandwidths are not compared"),
    (lambda report: dataclasses.replace(report, backend="gloo"), "with gloo: durations and"),
    (lambda report: dataclasses.replace(report, suites=()), "Report B has no cases."),
]


@pytest.mark.parametrize(("change", "warning"), MISLEADING)
def test_what_would_mislead_is_said(change: Callable[[Report], Report], warning: str) -> None:
    a = a_night(0, {"mine": [a_case(ID, seconds=1.0)]})
    warnings = compare(a, change(a)).warnings
    assert [one for one in warnings if warning in one], warnings


def test_gangs_of_another_size_are_not_compared_by_the_clock() -> None:
    a = a_night(0, {"mine": [a_case(f"{number}", seconds=1.0) for number in range(30)]})
    b = a_night(1, {"mine": [a_case(f"{number}", seconds=90.0) for number in range(30)]})
    assert compare(a, b).worse == ("1 suite slower as a whole",)
    assert compare(a, dataclasses.replace(b, nodes=4)).durations.compared == 0


FACTS = NodeFacts(gpus=("H100",) * 8, driver="550.54", kernel="6.8.0", cpus=192, memory_bytes=(2048 << 30) + 5)


def test_environments_are_compared_where_both_reports_have_them() -> None:
    other = dataclasses.replace(FACTS, driver="560.28", kernel="", memory_bytes=2048 << 30, memlock_bytes=-1)
    a = a_night(0, {}, versions={"torch": "2.9.0", "nccl": "2.27"}, preflight=(FACTS, FACTS))
    rdma = TransportFacts(transport=NetworkTransport.RDMA, network="IB")
    tcp = TransportFacts(transport=NetworkTransport.TCP, network="Socket")
    a = dataclasses.replace(a, transport=GangTransport(used=rdma))
    b = a_night(1, {}, versions={"torch": "2.9.1"}, preflight=(FACTS, other), node_names=("node0", "node7"))
    b = dataclasses.replace(b, settings={"NCCL_ALGO": "Ring"})
    assert "transport" not in {one.what for one in compare(a, b).environment}, "unknown in B"
    b = dataclasses.replace(b, transport=GangTransport(used=tcp))
    found = [(one.what, one.before, one.after) for one in compare(a, b).environment]
    assert found == [
        ("transport", "rdma (IB)", "tcp (Socket)"),
        ("node names", "node1", "node7"),
        ("nccl", "2.27", "none"),
        ("torch", "2.9.0", "2.9.1"),
        ("NCCL_ALGO", "none", "Ring"),
        ("driver", "550.54", "550.54 (1 node), 560.28 (1 node)"),
    ]
