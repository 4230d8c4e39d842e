"""What a report must prove if the spec requires a network, and what is kept of it."""

from dataclasses import replace

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.network_transport import (
    NETWORKS,
    UNKNOWN,
    GangTransport,
    NetworkTransport,
    TransportFacts,
    TransportGroup,
)
from disttest_contract.results.report import Report
from disttest_operator.core.api.model import RequiredTransport
from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.series import run_results
from disttest_operator.core.verdict import classify
from disttest_operator.core.workload import run_plan
from tests.support.builders.runs import a_report, a_spec, a_test, an_ended_pod, evidence, found

RDMA = TransportFacts(transport=NetworkTransport.RDMA, network="IB")
TCP = TransportFacts(transport=NetworkTransport.TCP, network="Socket")
LOCAL = TransportFacts(transport=NetworkTransport.LOCAL)


def gang(*facts: TransportFacts) -> GangTransport:
    groups = tuple(TransportGroup(ranks=str(rank), used=one) for rank, one in enumerate(facts))
    return GangTransport(used=facts[0], groups=groups if len(groups) > 1 else ())


def an_end(report: Report, transport: RequiredTransport) -> Evidence:
    pods = (an_ended_pod(0, 0, seconds=19), an_ended_pod(1, 0, seconds=19))
    return evidence(*pods, test=a_test(spec=a_spec(transport=transport)), report=found(report))


@pytest.mark.parametrize(
    ("wanted", "transport", "is_met"),
    [
        (RequiredTransport.ANY, UNKNOWN, True),
        (RequiredTransport.ANY, gang(TCP), True),
        (RequiredTransport.RDMA, gang(RDMA), True),
        (RequiredTransport.RDMA, gang(RDMA, LOCAL), True),
        (RequiredTransport.TCP, gang(TCP), True),
        (RequiredTransport.RDMA, gang(TCP), False),
        (RequiredTransport.RDMA, UNKNOWN, False),  # of a runner that does not know the field
        (RequiredTransport.RDMA, gang(RDMA, TransportFacts()), False),
        (RequiredTransport.RDMA, gang(LOCAL), False),
        (RequiredTransport.TCP, gang(TCP, RDMA), False),
        (RequiredTransport.PLUGIN, gang(RDMA), False),
    ],
)
def test_a_report_that_passes_must_prove_the_transport_of_the_spec(
    wanted: RequiredTransport, transport: GangTransport, *, is_met: bool
) -> None:
    ending = classify(an_end(a_report(transport=transport), wanted))
    assert ending is not None
    expected = (Verdict.PASSED, Reason.ALL_CASES_PASSED) if is_met else (Verdict.INFRA_FAILED, Reason.WRONG_TRANSPORT)
    assert (ending.verdict, ending.reason) == expected
    assert is_met or f"spec.transport is {wanted}, and the report has {transport.used.words}." in ending.message


def test_a_failed_case_outweighs_what_is_unknown() -> None:
    ending = classify(an_end(a_report({"test_a": Outcome.FAILED}), RequiredTransport.RDMA))
    assert ending is not None
    assert ending.verdict is Verdict.TESTS_FAILED


def test_the_plan_of_the_gang_has_the_transport_of_the_spec() -> None:
    assert run_plan.run_plan(a_test(spec=a_spec(transport=RequiredTransport.RDMA)), 1).transport == "rdma"
    assert '"transport"' not in run_plan.run_plan(a_test(), 1).to_json()


@pytest.mark.parametrize(
    ("network", "label"),
    [("IB", "IB"), ("IBext_v9", "IBext"), ("AWS Libfabric", "AWS Libfabric"), ("x\n" * 30, "other"), ("", "")],
)
def test_a_ledger_has_one_of_few_names(network: str, label: str) -> None:
    report = a_report(transport=gang(replace(RDMA, network=network)))
    environment = run_results.environment(report)
    assert (environment["transport"], environment["network"]) == ("rdma", label)
    assert label in {*NETWORKS, "other", ""}
