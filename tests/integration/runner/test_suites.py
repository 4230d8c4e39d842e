"""The built-in suites, green where they must be, on worlds of several shapes."""

from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from tests.integration.runner.gang import Gang, builtin, make_plan

SUITES = ("collectives", "fully-shard-autograd")


@pytest.mark.parametrize(("nodes", "ranks"), [(2, 2), (1, 3), (1, 1)], ids=["2x2", "1x3", "1x1"])
def test_both_suites_pass_one_after_the_other_in_the_same_gang(nodes: int, ranks: int, tmp_path: Path) -> None:
    gang = Gang(make_plan(*map(builtin, SUITES), nodes=nodes, ranks=ranks, case_seconds=60), tmp_path)
    report = gang.run()
    assert report.verdict is Verdict.PASSED, gang.text
    assert [(suite.name, suite.verdict) for suite in report.suites] == [(name, Verdict.PASSED) for name in SUITES]
    collectives, autograd = report.suites
    assert (len(collectives.cases), len(autograd.cases)) == (43, 12)
    # what gloo cannot do is expected, by name; what this world is too small for is not run, never passed
    unusual = {one.id.split("::")[1]: one.outcome for suite in report.suites for one in suite.cases}
    unusual = {name: outcome for name, outcome in unusual.items() if outcome is not Outcome.PASSED}
    gaps = {name for name, outcome in unusual.items() if outcome is Outcome.XFAILED}
    assert gaps == {"test_all_gather[float8_e4m3fn]", "test_broadcast_from_the_first[float8_e4m3fn]"}
    too_small = {name for name, outcome in unusual.items() if outcome is Outcome.NOT_RUN}
    in_pairs = {"test_unused_forward_output[reshard_to_2]", "test_unused_forward_module[reshard_to_2]"}
    rings = {f"test_ring_of_send_and_receive[{kind}]" for kind in ("float32", "bfloat16", "int64")}
    assert too_small == (in_pairs if nodes * ranks % 2 else set()) | (rings if nodes * ranks == 1 else set())
    assert report.versions["torch"]
    assert report.generations == len(SUITES)


def test_times_are_in_order_and_the_gang_is_down_soon_after_the_last_case(tmp_path: Path) -> None:
    gang = Gang(make_plan(builtin("collectives")), tmp_path)
    report = gang.run()
    assert report.joined is not None
    assert report.first_case is not None
    assert report.last_case is not None
    times = [report.started, report.joined, report.first_case, report.last_case, report.finished]
    assert times == sorted(times)
    assert report.finished - report.last_case < 1
