"""The plan and the environment through which an agent learns what to do."""

import dataclasses
import json
from typing import Any

import pytest

from disttest_contract.gang import environment
from disttest_contract.gang.environment import AgentEnvironment, is_reserved
from disttest_contract.gang.plan import InvalidPlanError, RunPlan, SuitePlan
from disttest_contract.results.thresholds import Threshold

PLAN = RunPlan(
    namespace="gpu-ci",
    name="nightly",
    uid="u",
    series="",
    attempt=1,
    nodes=2,
    ranks_per_node=8,
    backend="nccl",
    spread=True,
    suites=(
        SuitePlan(name="collectives", builtin="collectives", env=(("COLLECTIVES_SIZES", "1M"),)),
        SuitePlan(name="mine", directory="/suites/mine"),
        SuitePlan(name="c10d", root="/opt/pytorch", files=("test/distributed/test_c10d_*.py",), select="not gloo"),
        SuitePlan(name="known", builtin="collectives", quarantine=("t.py::test_x[a/b-1]", "t.py::C::*")),
        SuitePlan(name="one", directory="/here", files=("test_it.py",), cases=("test_it.py::test_a[x#2]",)),
        SuitePlan(name="tree", directory="/tree/tests", in_repository=True),
    ),
    rendezvous_seconds=300,
    case_seconds=300,
    run_seconds=7200,
    flaky_retries=1,
    artifacts="/artifacts",
    thresholds=(
        Threshold(collective="all_reduce", size_bytes=1 << 30, min_bus_bandwidth_bytes_per_second=10**15),
        Threshold(collective="gather", size_bytes=8, min_bus_bandwidth_bytes_per_second=1, dtype="int64"),
    ),
)
THRESHOLD = PLAN.thresholds[0].to_json()
SUITE = json.loads(PLAN.to_json())["suites"][0]
ENVIRON = {
    environment.PLAN: PLAN.to_json(),
    environment.NONCE: "secret",
    environment.NODE_INDEX: "1",
    environment.NODE_NAME: "node-b",
    environment.POD_NAME: "nightly-1",
    environment.POD_UID: "pod-uid",
    environment.LEADER: "nightly-0.nightly:29400",
}


def test_a_plan_comes_back_from_its_json() -> None:
    assert RunPlan.from_json(PLAN.to_json()) == PLAN
    assert "\n" not in PLAN.to_json()
    assert PLAN.world_size == 16


def test_a_plan_without_quarantine_says_nothing_of_it() -> None:
    suites = json.loads(PLAN.to_json())["suites"]
    assert ["quarantine" in suite for suite in suites] == [False, False, False, True, False, False]
    assert ["cases" in suite for suite in suites] == [False, False, False, False, True, False]
    assert ["in_repository" in suite for suite in suites] == [False, False, False, False, False, True]


def test_repetitions_are_written_only_where_there_are_some() -> None:
    assert "repeat" not in json.loads(PLAN.to_json())
    for repeat, until_fail in ((50, False), (0, True), (1, True)):
        plan = dataclasses.replace(PLAN, repeat=repeat, until_fail=until_fail)
        assert RunPlan.from_json(plan.to_json()) == plan
    with pytest.raises(InvalidPlanError, match="'repeat' is 'often'"):
        RunPlan.from_json(json.dumps(json.loads(PLAN.to_json()) | {"repeat": "often"}))


def test_a_plan_of_an_operator_that_knows_no_thresholds_has_none() -> None:
    data = json.loads(PLAN.to_json())
    del data["thresholds"]
    without = RunPlan.from_json(json.dumps(data))
    assert without.thresholds == ()
    assert "thresholds" not in json.loads(without.to_json())


def test_unknown_keys_of_a_plan_are_ignored() -> None:
    data = json.loads(PLAN.to_json())
    data["suites"][0]["colour"] = "red"
    assert RunPlan.from_json(json.dumps({**data, "colour": "blue"})) == PLAN


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 1}, "schema"),
        ({"nodes": "2"}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"spread": 1}, "spread"),
        ({"suites": {}}, "suites"),
        ({"suites": ["collectives"]}, "suite"),
        ({"suites": [{"name": "x"}]}, "builtin"),
        ({"suites": [{**SUITE, "files": [1]}]}, "files"),
        ({"suites": [{**SUITE, "env": [["X"]]}]}, "env"),
        ({"suites": [{**SUITE, "env": [["X", 1]]}]}, "env"),
        ({"suites": [{**SUITE, "quarantine": "t.py::test_x"}]}, "quarantine"),
        ({"suites": [{**SUITE, "quarantine": [["x"]]}]}, "quarantine"),
        ({"suites": [{**SUITE, "cases": "t.py::test_x"}]}, "cases"),
        ({"suites": [{**SUITE, "cases": [1]}]}, "cases"),
        ({"repeat": True}, "repeat"),
        ({"until_fail": 1}, "until_fail"),
        ({"thresholds": {}}, "thresholds"),
        ({"thresholds": [[]]}, "thresholds"),
        ({"thresholds": [{}]}, "thresholds"),
        ({"thresholds": [{**THRESHOLD, "sizeBytes": "1G"}]}, "thresholds"),
        ({"thresholds": [{**THRESHOLD, "minBusBandwidthBytesPerSecond": 0}]}, "thresholds"),
        ({"thresholds": [{**THRESHOLD, "dtype": None}]}, "thresholds"),
        ({"flaky_retries": "1"}, "flaky_retries"),
        ({"backend": None}, "backend"),
    ],
)
def test_a_wrong_plan_is_refused_by_the_name_of_what_is_wrong(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPlanError, match=words):
        RunPlan.from_json(json.dumps({**json.loads(PLAN.to_json()), **changes}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(InvalidPlanError):
        RunPlan.from_json(text)


def test_an_agent_reads_who_it_is() -> None:
    me = AgentEnvironment.read(ENVIRON)
    assert (me.node_index, me.leader_host, me.leader_port, me.plan) == (1, "nightly-0.nightly", 29400, PLAN)
    assert me.termination_log == environment.TERMINATION_LOG_DEFAULT


@pytest.mark.parametrize(("value", "is_kept"), [("", True), ("yes", True), ("no", False)])
def test_a_log_is_kept_unless_somebody_says_otherwise(value: str, *, is_kept: bool) -> None:
    assert AgentEnvironment.read({**ENVIRON, environment.LOG_IS_KEPT: value}).log_is_kept is is_kept


@pytest.mark.parametrize("name", sorted(ENVIRON))
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(InvalidPlanError, match=name):
        AgentEnvironment.read({**ENVIRON, name: ""})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (environment.NODE_INDEX, "2"),
        (environment.NODE_INDEX, "-1"),
        (environment.LEADER, "host"),
        (environment.LEADER, "h:x"),
    ],
)
def test_a_senseless_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidPlanError, match=name):
        AgentEnvironment.read({**ENVIRON, name: value})


@pytest.mark.parametrize(
    "name", ["RANK", "DISTTEST_NONCE", "PET_NNODES", "TORCHELASTIC_RUN_ID", "JOB_COMPLETION_INDEX"]
)
def test_what_the_runner_sets_is_reserved(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "PATH", "RANKING"])
def test_what_users_may_set_is_not(name: str) -> None:
    assert not is_reserved(name)
