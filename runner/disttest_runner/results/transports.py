"""The network that the ranks of a gang used, merged, and what follows if the plan requires another. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results import network_transport
from disttest_contract.results.network_transport import (
    ANY,
    GROUPS,
    WORST_FIRST,
    GangTransport,
    NetworkTransport,
    TransportFacts,
    TransportGroup,
)
from disttest_contract.text import formatting
from disttest_runner.protocol.join_protocol import RunEnd
from disttest_runner.results.blame import World, name_ranks

GLOO = TransportFacts(transport=NetworkTransport.TCP, network="gloo")
RANKS_CHARACTERS = 200
ADVICE: Mapping[str, str] = {
    NetworkTransport.RDMA.value: (
        "Check that the image has libibverbs, that template.spec.resources request the RDMA device, and the limit of "
        "locked memory; NCCL_NET=IB in spec.env makes NCCL report what is missing"
    ),
    NetworkTransport.TCP.value: "Set NCCL_NET=Socket in spec.env, or remove the network plugin from the image",
    NetworkTransport.PLUGIN.value: (
        "Check that the image has the network plugin and its libraries, and that template.spec.resources request its "
        "devices; NCCL_NET_PLUGIN in spec.env names the plugin"
    ),
}
UNREAD = (
    "The transport is read from NCCL's log: spec.env must not set NCCL_DEBUG below INFO, NCCL_DEBUG_SUBSYS without "
    "INIT, or NCCL_DEBUG_FILE, and the suites must use NCCL on every rank"
)


def of_gang(plan: RunPlan, found: Mapping[int, TransportFacts]) -> GangTransport:
    """Merge the facts of ranks: the worst network counts, and ranks that differ are in groups, the worst first."""
    if plan.backend == GLOO.network:
        return GangTransport(used=GLOO)
    alike: dict[TransportFacts, list[int]] = {}
    for rank in range(plan.world_size):
        alike.setdefault(found.get(rank, TransportFacts()), []).append(rank)
    order = sorted(alike, key=lambda facts: (WORST_FIRST.index(facts.transport), alike[facts][0]))
    groups = tuple(
        TransportGroup(ranks=formatting.show_ranks(alike[facts])[:RANKS_CHARACTERS], used=facts) for facts in order
    )
    used = order[0] if order else TransportFacts()
    return GangTransport(used=used, groups=_bounded(groups) if len(groups) > 1 else ())


def _bounded(groups: Sequence[TransportGroup]) -> tuple[TransportGroup, ...]:
    """Keep the last group too: it shows if something is unknown."""
    return tuple(groups) if len(groups) <= GROUPS else (*groups[: GROUPS - 1], groups[-1])


def mismatch(plan: RunPlan, names: Sequence[str], found: Mapping[int, TransportFacts]) -> RunEnd | None:
    """Return the end of a run in which a rank uses another network than the plan requires."""
    if plan.transport == ANY:
        return None
    allowed = {plan.transport, NetworkTransport.LOCAL.value, NetworkTransport.UNKNOWN.value}
    odd = sorted(rank for rank, facts in found.items() if facts.transport.value not in allowed)
    if not odd:
        return None
    good = [rank for rank, facts in found.items() if facts.transport.value == plan.transport]
    at_fault = {rank // plan.ranks_per_node for rank in odd}
    used = f"{_named(odd, plan, names)} used {found[odd[0]].words}"
    is_of_some = bool(good) and at_fault.isdisjoint(rank // plan.ranks_per_node for rank in good)
    return _end(plan, used, ADVICE[plan.transport], tuple(sorted(at_fault)) if is_of_some else ())


def unproven(plan: RunPlan, names: Sequence[str], found: Mapping[int, TransportFacts]) -> RunEnd | None:
    """Return the end of a run whose cases passed, but that does not prove the required network."""
    gang = of_gang(plan, found)
    if network_transport.is_met(plan.transport, gang):
        return None
    if wrong := mismatch(plan, names, found):
        return wrong
    known = {rank for rank, facts in found.items() if facts.transport is not NetworkTransport.UNKNOWN}
    unknown = [rank for rank in range(plan.world_size) if rank not in known]
    if gang.used.transport is NetworkTransport.LOCAL and not unknown:
        return _end(plan, "the ranks used no network", "Nodes that NVLink connects do not use it: set transport: any")
    return _end(plan, f"the transport of {_named(unknown, plan, names)} is unknown", UNREAD)


def _end(plan: RunPlan, used: str, advice: str, at_fault: tuple[int, ...] = ()) -> RunEnd:
    message = f"spec.transport is {plan.transport}, but {used}. {advice}"
    return RunEnd(Verdict.INFRA_FAILED, Reason.WRONG_TRANSPORT, message, at_fault=at_fault)


def _named(ranks: Iterable[int], plan: RunPlan, names: Sequence[str]) -> str:
    return name_ranks(ranks, World(node_names=tuple(names), ranks_per_node=plan.ranks_per_node))
