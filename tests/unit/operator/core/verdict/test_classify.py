"""Every rule of the table: what evidence it needs, what verdict and reason it gives, what its sentence names."""

from dataclasses import replace

import pytest

from disttest_contract.outcomes import Reason
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import Placement
from disttest_operator.core.api.template import Template
from disttest_operator.core.observed.evidence import Evidence, LogUnreadable, Observed, Policy
from disttest_operator.core.observed.objects import NodeView
from disttest_operator.core.verdict import classify, refuse, rules
from tests.support.builders.runs import (
    a_job,
    a_pod,
    a_spec,
    a_test,
    a_waiting_pod,
    an_ended_pod,
    an_unscheduled_pod,
    at,
    evidence,
    found,
)
from tests.support.endings.table import ENDED, GANG_LOST, GPUS, ROWS, SMALL_NODES, EndingRow


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_evidence_gives_this_verdict(row: EndingRow) -> None:
    ending = classify(row.evidence)
    assert ending is not None
    assert (ending.verdict, ending.reason) == (row.verdict, row.reason), ending
    assert row.words in ending.message
    assert (ending.retry, ending.blamed) == (row.retry, row.blamed)


def test_every_rule_has_a_row() -> None:
    cases = [row.evidence for row in ROWS.values()]
    applied = {next(rule.find for rule in rules(is_over=one.is_over) if rule.find(one)) for one in cases}
    assert {rule.find.__name__ for rule in rules(is_over=True)} == {find.__name__ for find in applied}


CONTINUING = {
    "nothing but a Job": evidence(),
    "gang runs": evidence(a_pod(0), a_pod(1)),
    "image away for a moment": evidence(a_pod(0), a_waiting_pod(1, "ErrImagePull"), seconds=20),
    "container is being made": evidence(a_pod(0), a_waiting_pod(1, "ContainerCreating"), seconds=500),
    "pod waits for a node": evidence(a_pod(0), an_unscheduled_pod(1), seconds=500),
    "too few GPUs, but nodes may be added": evidence(an_unscheduled_pod(0), test=GPUS, nodes=SMALL_NODES),
    "leader ended, log not read yet": evidence(*ENDED),
    "leader ended, log not readable now": evidence(*ENDED, report=LogUnreadable(problem="502"), seconds=25),
    "leader gave up, the others' ends not known yet": evidence(
        an_ended_pod(0, 20), a_pod(1), report=found(GANG_LOST), seconds=21
    ),
    "another agent ended, the leader has not reported yet": evidence(a_pod(0), an_ended_pod(1, 20), seconds=25),
    "another agent ended well": evidence(a_pod(0), an_ended_pod(1, 0), seconds=200),
    "long in its queue": evidence(job=a_job(is_suspended=True, started=None), seconds=500),
}


@pytest.mark.parametrize("continuing", CONTINUING.values(), ids=CONTINUING.keys())
def test_a_run_continues(continuing: Evidence) -> None:
    assert classify(continuing) is None


def test_a_log_that_stays_unreadable_counts_as_a_missing_report() -> None:
    ending = classify(evidence(*ENDED, report=LogUnreadable(problem="502"), seconds=41))
    assert ending is not None
    assert ending.reason is Reason.REPORT_MISSING


def test_a_replaced_pod_that_never_started_is_no_loss() -> None:
    old = an_unscheduled_pod(1)
    gone = a_pod(1, uid="old", created=at(1), started=None, is_gone=True, ending_since=at(2), node=old.node)
    assert classify(evidence(a_pod(0), gone, a_pod(1), seconds=40)) is None


def test_pods_of_an_earlier_run_of_the_same_name_are_ignored() -> None:
    stranger = an_ended_pod(0, 137, run_uid="another")
    assert classify(evidence(stranger, seconds=100)) is None


def test_what_is_allowed_is_not_refused_and_an_existing_gang_continues() -> None:
    """An administrator who revokes an allowance ends no run that has its gang: only the next gang is not created."""
    test = a_test(spec=a_spec(template=Template(host_network=True)))
    allowed = Policy(allowed=(Allowance(kind="host-network", namespace="gpu-ci"),))
    elsewhere = Policy(allowed=(Allowance(kind="host-network", namespace="other"),))
    assert refuse(Evidence(test=test, seen=Observed(), policy=allowed, now=at(1))) is None
    assert refuse(Evidence(test=test, seen=Observed(), policy=elsewhere, now=at(1))) is not None
    assert classify(evidence(a_pod(0), a_pod(1), test=test)) is None
    existing = replace(test, status={"attempt": 1})
    assert refuse(Evidence(test=existing, seen=Observed(), now=at(1))) is None


def test_nothing_is_refused_in_a_good_run() -> None:
    assert refuse(evidence()) is None


@pytest.mark.parametrize(
    ("placement", "amounts", "enough"),
    [
        (Placement.SPREAD, ("8", "8"), True),
        (Placement.SPREAD, ("16", "0"), False),
        (Placement.ANY, ("16", "0"), True),
        (Placement.ANY, ("7", "7"), False),
    ],
)
def test_gpus_are_enough_when_the_gang_could_be_placed(
    placement: Placement,
    amounts: tuple[str, str],
    enough: bool,  # noqa: FBT001  # a column of the table
) -> None:
    nodes = tuple(
        NodeView(name=f"n{index}", labels={}, allocatable={"nvidia.com/gpu": amount})
        for index, amount in enumerate(amounts)
    )
    test = a_test(spec=a_spec(gpus_per_node=8, ranks_per_node=8, placement=placement))
    ending = refuse(evidence(test=test, nodes=nodes, policy=Policy(fixed_nodes=True)))
    assert (ending is None) is enough


def test_only_nodes_that_the_run_selects_count() -> None:
    template = Template(node_selector={"pool": "a"})
    test = a_test(spec=a_spec(nodes=1, gpus_per_node=8, ranks_per_node=8, template=template))
    nodes = (NodeView(name="n", labels={"pool": "b"}, allocatable={"nvidia.com/gpu": "8"}),)
    ending = refuse(evidence(test=test, nodes=nodes, policy=Policy(fixed_nodes=True)))
    assert ending is not None
    assert "0 of 0 nodes that match spec.template.spec.nodeSelector" in ending.message
