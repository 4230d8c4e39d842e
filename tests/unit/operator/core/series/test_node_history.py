from typing import Any

import pytest

from disttest_contract.outcomes import Verdict
from disttest_operator.core.series import history
from tests.support.builders.runs import a_report
from tests.support.builders.series import Nights, time_of


def a_suspect(name: str = "node1", *, confirmed: bool = False, reason: str = "NodeLost") -> dict[str, Any]:
    return {"name": name, "reason": reason, "evidence": "it went away", "confirmed": confirmed}


def blaming(*suspects: dict[str, Any]) -> Nights:
    series = Nights()
    series.report(None, suspectNodes=list(suspects))
    return series


def test_a_blamed_node_is_listed() -> None:
    [row] = blaming(a_suspect()).ledger["suspectNodes"]
    assert row == {
        "name": "node1",
        "reason": "NodeLost",
        "count": 1,
        "confirmed": False,
        "lastTime": time_of(0),
        "lastRun": "night-0",
    }


def test_a_later_pass_on_the_node_clears_it_and_new_blame_counts_on() -> None:
    series = blaming(a_suspect(confirmed=True))
    series.report(a_report())
    series.report(a_report())
    [row] = series.ledger["suspectNodes"]
    assert (row["clearedTime"], row["count"]) == (time_of(1), 1)
    series.report(None, suspectNodes=[a_suspect(reason="GPUUnhealthy")])
    [row] = series.ledger["suspectNodes"]
    assert (row["reason"], row["count"], row["confirmed"], row["lastRun"]) == ("GPUUnhealthy", 2, False, "night-3")
    assert "clearedTime" not in row


def test_what_was_confirmed_stays_so_while_it_is_not_cleared() -> None:
    series = blaming(a_suspect(confirmed=True))
    series.report(None, suspectNodes=[a_suspect()])
    assert [row["confirmed"] for row in series.ledger["suspectNodes"]] == [True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": Verdict.TESTS_FAILED}, "a run that did not pass"),
        ({"nodes": ("node2", "node3")}, "a run on other nodes"),
        ({"attempts": [{"nodes": ["node1"]}, {"nodes": ["node2", "node3"]}]}, "a run that passed elsewhere at last"),
        ({"suspectNodes": [a_suspect()]}, "a run that blames it itself"),
    ],
    ids=str,
)
def test_it_is_not_cleared_by(changes: dict[str, Any], words: str) -> None:
    series = blaming(a_suspect())
    series.report(a_report(), **changes)
    [row] = series.ledger["suspectNodes"]
    assert "clearedTime" not in row, words


def test_nodes_of_the_last_attempt_are_cleared_wherever_the_pods_seem_to_be() -> None:
    series = blaming(a_suspect("node7"))
    series.report(a_report(), attempts=[{"nodes": ["node1"]}, {"nodes": ["node7", "node2"]}])
    assert "clearedTime" in series.ledger["suspectNodes"][0]


def test_a_cleared_node_is_removed_when_its_blame_is_older_than_the_listed_runs() -> None:
    series = blaming(a_suspect())
    for _ in range(29):
        series.report(a_report())
    assert len(series.ledger["suspectNodes"]) == 1
    series.report(a_report())
    assert series.ledger["suspectNodes"] == []


def test_those_that_matter_most_are_listed_and_the_others_counted() -> None:
    series = blaming(*(a_suspect(f"cleared-{number}") for number in range(2)))
    series.report(a_report(), nodes=("cleared-0", "cleared-1"))
    series.report(None, suspectNodes=[a_suspect(f"old-{number}") for number in range(20)])
    sure = [a_suspect(f"sure-{number}", confirmed=True) for number in range(20)]
    series.report(None, suspectNodes=sure)
    series.report(None, suspectNodes=[a_suspect(f"new-{number}") for number in range(20)])
    names = [row["name"] for row in series.ledger["suspectNodes"]]
    assert [sum(name.startswith(kind) for name in names) for kind in ("sure", "new", "old", "cleared")] == [
        20,
        20,
        10,
        0,
    ]
    assert names[0].startswith("sure")
    assert series.ledger["suspectNodesOmitted"] == 12
    assert len(names) == history.LISTED_BLAMED
    series.report(a_report(), nodes=("new-0",))
    assert series.ledger["suspectNodesOmitted"] == 12
