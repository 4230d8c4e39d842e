"""The built-in suites, green where they must be, on worlds of several shapes."""

from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Outcome, Verdict
from tests.support.gangs.gang import AgentGang, builtin, make_plan

SUITES = ("collectives", "fully-shard-autograd")


@pytest.mark.parametrize(
    ("nodes", "ranks"),
    [pytest.param(2, 2, marks=pytest.mark.soak), (1, 1), pytest.param(1, 3, marks=pytest.mark.soak)],
    ids=["2x2", "1x1", "1x3"],
)
def test_both_suites_pass_one_after_the_other_in_the_same_gang(nodes: int, ranks: int, tmp_path: Path) -> None:
    gang = AgentGang(make_plan(*map(builtin, SUITES), nodes=nodes, ranks=ranks, case_seconds=60), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert [(suite.name, suite.verdict) for suite in report.suites] == [(name, Verdict.PASSED) for name in SUITES]
    collectives, autograd = report.suites
    assert (len(collectives.cases), len(autograd.cases)) == (201, 12)
    # what gloo cannot do is expected, by name; what this world is too small for is not run, never passed
    unusual = {one.id.split("::")[1]: one.outcome for suite in report.suites for one in suite.cases}
    unusual = {name: outcome for name, outcome in unusual.items() if outcome is not Outcome.PASSED}
    gaps = {name for name, outcome in unusual.items() if outcome is Outcome.XFAILED}
    copies = ("all_gather", "all_to_all", "broadcast", "gather", "scatter")
    assert gaps == {f"test_every_element[{name}-float8_e4m3fn-{count}]" for name in copies for count in (1, 1031)}
    too_small = {name for name, outcome in unusual.items() if outcome is Outcome.NOT_RUN}
    in_pairs = {"test_unused_forward_output[reshard_to_2]", "test_unused_forward_module[reshard_to_2]"}
    with_peers = {name for name in unusual if name.startswith(("test_bandwidth", "test_every_element[send_recv-"))}
    with_peers.add("test_send_and_receive_along_a_chain")
    assert too_small == (in_pairs if nodes * ranks % 2 else set()) | (with_peers if nodes * ranks == 1 else set())
    measured = [one for case in collectives.cases for one in case.measurements]
    assert len(measured) == (30 if nodes * ranks > 1 else 0)
    assert not any(one.wrong_elements for one in measured)
    assert report.versions["torch"]
    assert report.generations == len(SUITES)


def test_times_are_in_order_and_the_gang_is_down_soon_after_the_last_case(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(SuitePlan(name="collectives", builtin="collectives", select="float32")), tmp_path)
    report = gang.run()
    assert report.joined is not None
    assert report.first_case is not None
    assert report.last_case is not None
    times = [report.started, report.joined, report.first_case, report.last_case, report.finished]
    assert times == sorted(times)
    assert report.finished - report.last_case < 1
