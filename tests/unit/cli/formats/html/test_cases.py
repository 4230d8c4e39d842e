import dataclasses

from disttest_cli.formats.html.cases import COLUMNS, NOT_REPORTED, RESULTS, ROWS, grid
from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult, RankEnding, RankGroup
from disttest_contract.results.report import Report
from tests.support.reports.hostile import a_hostile_subject
from tests.support.reports.reports import a_good_night, a_night, a_report, a_suite


def a_case(number: int, *failed: int, world: int) -> CaseResult:
    """It failed for these ranks; the result of the last rank is missing."""
    others = tuple(rank for rank in range(world - 1) if rank not in failed)
    return CaseResult(
        id=f"t.py::test[{number}]",
        outcome=Outcome.FAILED,
        seconds=1,
        message="no",
        ranks=failed,
        by_rank=(
            RankGroup(ranks=failed, ending=RankEnding.FAILED),
            RankGroup(ranks=others, ending=RankEnding.PASSED),
        ),
    )


def a_large_report(nodes: int, *cases: CaseResult) -> Report:
    return a_report(
        a_suite("s", cases), nodes=nodes, ranks_per_node=8, node_names=tuple(f"n{index}" for index in range(nodes))
    )


def test_few_ranks_have_a_column_each_under_their_nodes() -> None:
    found = grid(a_night())
    assert found is not None
    assert [column.label for column in found.columns] == [str(rank) for rank in range(16)]
    assert found.spans == (("gpu-node-17", 8), ("gpu-node-23", 8))
    crashed = next(row for row, (_, case) in enumerate(found.rows) if case.outcome is Outcome.CRASHED)
    assert found.cells(crashed)[13] == "crashed"
    assert found.cells(crashed)[8:11] == ["failed"] * 3
    assert [case.is_red for _, case in found.rows] == [True] * 4 + [False], "what is in quarantine comes last"


def test_where_all_agree_there_is_no_grid() -> None:
    assert grid(a_good_night()) is None


def test_ranks_that_are_alike_share_a_column() -> None:
    found = grid(a_large_report(64, a_case(1, 9, world=512), a_case(2, 9, 100, world=512)))
    assert found is not None
    assert [column.label for column in found.columns] == ["0-8,10-99,101-510", "9", "100", "511"]
    assert [column.endings for column in found.columns][-1] == ("unknown", "unknown")
    assert "512 ranks" in found.note
    assert found.columns[0].name == "ranks 0-8,10-99,101-510 on 64 nodes"


def test_where_too_many_ranks_differ_nodes_are_compared() -> None:
    cases = [a_case(number, number, world=512) for number in range(48)]
    found = grid(a_large_report(64, *cases))
    assert found is not None
    assert len(found.columns) == 8, "six nodes with a failure each, those with none, the one that did not tell all"
    assert found.columns[0].node == "n0"
    assert found.cells(0) == ["failed", *["passed"] * 6, "unknown"]
    assert "the worst rank of a node" in found.note


def test_columns_have_an_end_and_it_is_said() -> None:
    cases = [a_case(number, number * 8, world=512) for number in range(60)]
    found = grid(a_large_report(64, *cases, a_case(61, *range(481, 511), world=512)))
    assert found is not None
    assert len(found.columns) == COLUMNS
    assert "more columns omitted" in found.note


def test_rows_have_an_end_and_it_is_said() -> None:
    found = grid(a_large_report(2, *(a_case(number, 1, world=16) for number in range(100))))
    assert found is not None
    assert (len(found.rows), found.more_rows) == (ROWS, 100 - ROWS)


def test_ranks_that_the_gang_does_not_have_are_left_out() -> None:
    found = grid(a_hostile_subject().report)
    assert found is not None
    assert len(found.columns) == 16
    huge = dataclasses.replace(a_hostile_subject().report, nodes=1 << 40, ranks_per_node=1 << 40)
    assert grid(huge) is not None


def test_every_ending_has_a_sign_and_a_meaning() -> None:
    endings = {*RankEnding, NOT_REPORTED}
    assert set(RESULTS) == endings
