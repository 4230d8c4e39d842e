"""The suite fsdp-exec-order over gloo: FSDP1 also runs on the CPU, if the device is given."""

from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Verdict
from tests.support.gangs.gang import AgentGang, builtin, make_plan

CASES = {
    f"{name}{strategy}]"
    for name in (
        "test_another_order_in_the_first_iteration_is_an_error[",
        "test_another_order_in_a_later_iteration_is_warned_of_once[1-",
        "test_another_order_in_a_later_iteration_is_warned_of_once[3-",
        "test_training_and_evaluation_by_turns_is_no_other_order[",
    )
    for strategy in ("full_shard", "shard_grad_op")
}


@pytest.mark.parametrize(
    ("nodes", "ranks", "outcome"),
    [
        pytest.param(2, 2, Outcome.PASSED, id="2x2"),
        pytest.param(1, 3, Outcome.PASSED, id="1x3", marks=pytest.mark.soak),
        pytest.param(1, 1, Outcome.NOT_RUN, id="1x1", marks=pytest.mark.soak),
    ],
)
def test_what_every_case_comes_to(nodes: int, ranks: int, outcome: Outcome, tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin("fsdp-exec-order"), nodes=nodes, ranks=ranks), tmp_path)
    (suite,) = gang.run().suites
    assert {case.id.split("::")[-1]: case.outcome for case in suite.cases} == dict.fromkeys(CASES, outcome), gang.text
    assert suite.verdict is (Verdict.PASSED if outcome is Outcome.PASSED else Verdict.ERRORED)
    if outcome is Outcome.NOT_RUN:  # it was decided before there was anything to meet for
        assert {case.message for case in suite.cases} == {
            "not run: an order that differs across ranks needs two of them"
        }
