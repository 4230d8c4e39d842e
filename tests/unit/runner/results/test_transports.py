"""The network of a gang: merged from that of its ranks, and required by a plan."""

import dataclasses
from collections.abc import Mapping

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results import network_transport
from disttest_contract.results.network_transport import GROUPS, GangTransport, TransportFacts
from disttest_contract.results.network_transport import NetworkTransport as Used
from disttest_runner.results import transports
from tests.support.gangs.gang import builtin, make_plan

IB = TransportFacts(transport=Used.RDMA, network="IB", connections=("NET",))
SOCKET = TransportFacts(transport=Used.TCP, network="Socket", connections=("NET",))
EFA = TransportFacts(transport=Used.PLUGIN, network="AWS Libfabric", plugin="aws-ofi-nccl 1.17.1, efa")
LOCAL = TransportFacts(transport=Used.LOCAL, connections=("P2P",))
PLAN = make_plan(builtin("data-parallel"), nodes=2, ranks=2, backend="nccl")
NAMES = ("node-a", "node-b")
ALL_IB = dict.fromkeys(range(4), IB)


def test_ranks_that_agree_are_one_value() -> None:
    gang = transports.of_gang(PLAN, ALL_IB)
    assert gang == GangTransport(used=IB)
    assert gang.words == "rdma (IB)"


def test_the_worst_network_counts_and_all_others_are_named() -> None:
    gang = transports.of_gang(PLAN, {0: IB, 1: LOCAL, 2: SOCKET})
    assert gang.used == SOCKET
    assert gang.words == "tcp (Socket) on ranks 2; rdma (IB) on ranks 0; unknown on ranks 3"
    assert [group.used for group in gang.groups] == [SOCKET, IB, LOCAL, TransportFacts()]
    assert transports.of_gang(PLAN, {**ALL_IB, 1: LOCAL}).words == "rdma (IB)"
    with_shm = dataclasses.replace(IB, connections=("NET", "SHM"))
    assert transports.of_gang(PLAN, {**ALL_IB, 1: with_shm}).words == "rdma (IB)"


def test_no_value_is_unknown() -> None:
    assert transports.of_gang(PLAN, {}) == network_transport.UNKNOWN
    assert network_transport.UNKNOWN.to_json() == {}
    assert GangTransport.from_json({}) == network_transport.UNKNOWN
    newer = {"used": {"transport": "carrier pigeon", "feathers": 7}}
    assert GangTransport.from_json(newer).used.transport is Used.UNKNOWN


def test_gloo_is_tcp() -> None:
    plan = dataclasses.replace(PLAN, backend="gloo")
    assert transports.of_gang(plan, {}).words == "tcp (gloo)"


def test_groups_are_bounded_and_the_unknown_ranks_stay() -> None:
    plan = make_plan(builtin("data-parallel"), nodes=2, ranks=20, backend="nccl")
    found = {rank: dataclasses.replace(IB, network=f"IB{rank}") for rank in range(39)}
    gang = transports.of_gang(plan, found)
    assert len(gang.groups) == GROUPS
    assert gang.groups[-1].used.transport is Used.UNKNOWN
    assert not network_transport.is_met("rdma", gang)


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [
        ("any", {}, ""),
        ("any", dict.fromkeys(range(4), SOCKET), ""),
        ("rdma", ALL_IB, ""),
        ("rdma", {0: IB, 1: LOCAL, 2: LOCAL, 3: IB}, ""),
        ("plugin", dict.fromkeys(range(4), EFA), ""),
        ("tcp", dict.fromkeys(range(4), SOCKET), ""),
        ("rdma", dict.fromkeys(range(4), SOCKET), "ranks 0, 1, 2, 3 on node-a, node-b used tcp (Socket)."),
        ("rdma", dict.fromkeys(range(4), EFA), "used plugin (AWS Libfabric, aws-ofi-nccl 1.17.1, efa)."),
        ("tcp", ALL_IB, "used rdma (IB). Set NCCL_NET=Socket"),
        ("plugin", ALL_IB, "NCCL_NET_PLUGIN"),
        ("rdma", {**ALL_IB, 2: SOCKET}, "spec.transport is rdma, but rank 2 on node-b used tcp (Socket). Check"),
        ("rdma", {}, "the transport of ranks 0, 1, 2, 3 on node-a, node-b is unknown. The transport is read from"),
        ("rdma", {0: IB, 1: IB, 2: IB}, "the transport of rank 3 on node-b is unknown."),
        ("rdma", {**ALL_IB, 3: TransportFacts()}, "the transport of rank 3 on node-b is unknown."),
        ("rdma", dict.fromkeys(range(4), LOCAL), "the ranks used no network. Nodes that NVLink connects"),
    ],
)
def test_what_a_plan_requires_must_be_proven(wanted: str, found: Mapping[int, TransportFacts], words: str) -> None:
    plan = dataclasses.replace(PLAN, transport=wanted)
    end = transports.unproven(plan, NAMES, found)
    assert network_transport.is_met(wanted, transports.of_gang(plan, found)) is (not words)
    if not words:
        assert end is None
        return
    assert end is not None
    assert words in end.message
    assert (end.verdict, end.reason) == (Verdict.INFRA_FAILED, Reason.WRONG_TRANSPORT)


def test_a_gang_that_has_not_connected_yet_is_no_mismatch() -> None:
    plan = dataclasses.replace(PLAN, transport="rdma")
    for found in ({}, {0: IB}, {0: LOCAL}, {1: TransportFacts()}):
        assert transports.mismatch(plan, NAMES, found) is None


def test_nodes_are_at_fault_only_if_others_are_right() -> None:
    def at_fault(found: Mapping[int, TransportFacts]) -> tuple[int, ...]:
        end = transports.mismatch(dataclasses.replace(PLAN, transport="rdma"), NAMES, found)
        assert end is not None
        return end.at_fault

    assert at_fault({0: IB, 1: LOCAL, 2: SOCKET, 3: LOCAL}) == (1,)
    assert at_fault({0: SOCKET, 2: SOCKET}) == ()
    assert at_fault({0: SOCKET}) == ()
    assert at_fault({0: IB, 1: SOCKET}) == ()
