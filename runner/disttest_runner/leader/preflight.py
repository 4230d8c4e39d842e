"""Checks whether the nodes of a gang can be tested together, from the facts that each reported. No I/O."""

from collections import Counter
from collections.abc import Callable, Mapping

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_runner.protocol.join_protocol import RunEnd

CLOCK_SECONDS = 1.0  # apart: more makes logs of different nodes hard to compare
SHM_BYTES_PER_RANK = 32 << 20  # NCCL keeps buffers of a few MiB for each pair of ranks of a node there
MEMLOCK_BYTES = 64 << 20  # RDMA registers memory, which must be locked

Facts = Mapping[int, NodeFacts]  # by node index

# What must be equal on all nodes of a gang; a node on which it is unknown is not compared.
HARDWARE: Mapping[str, Callable[[NodeFacts], str]] = {
    "GPUs": lambda facts: ", ".join(dict.fromkeys(facts.gpus)),
    "the driver": lambda facts: facts.driver,
    "the CUDA of the driver": lambda facts: facts.cuda_driver,
}
SOFTWARE: Mapping[str, Callable[[NodeFacts], str]] = {
    name: lambda facts, key=key: facts.versions.get(key, "")  # type: ignore[misc]  # the default binds the loop's value
    for name, key in (("torch", "torch"), ("the CUDA of torch", "cuda"), ("NCCL", "nccl"), ("Python", "python"))
}


def check_hardware(plan: RunPlan, facts: Facts) -> RunEnd | None:
    """Check GPUs, if the plan uses them, before torch is imported."""
    if plan.backend != "nccl":
        return None
    poor = [index for index, one in facts.items() if len(one.gpus) < (1 if one.shares_gpus else plan.ranks_per_node)]
    if poor:
        one = facts[min(poor)]
        return RunEnd(
            Verdict.INFRA_FAILED,
            Reason.TOO_FEW_GPUS,
            f"{one.node_name} (node index {min(poor)}) sees {len(one.gpus)} GPUs, "
            f"but {plan.ranks_per_node} ranks need one each: "
            "see the device plugin of this node, or set `gpusPerNode` and `ranksPerNode` to what the node has",
            at_fault=tuple(sorted(poor)),
        )
    broken = [index for index, one in facts.items() if one.cuda_error]
    if broken:
        one = facts[min(broken)]
        return RunEnd(
            Verdict.INFRA_FAILED,
            Reason.GPU_BROKEN,
            f"CUDA cannot be initialised on {one.node_name} (node index {min(broken)}): {one.cuda_error}; "
            "see the driver of this node",
            at_fault=tuple(sorted(broken)),
        )
    return _differing(facts, HARDWARE)


def check_software(facts: Facts) -> RunEnd | None:
    """Check versions as soon as every node has imported torch."""
    return _differing(facts, SOFTWARE)


def _differing(facts: Facts, what: Mapping[str, Callable[[NodeFacts], str]]) -> RunEnd | None:
    for name, read in what.items():
        values = {index: value for index, one in sorted(facts.items()) if (value := read(one))}
        usual, _ = Counter(values.values()).most_common(1)[0] if values else ("", 0)
        odd = [index for index, value in values.items() if value != usual]
        if odd:
            first = odd[0]
            others = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            return RunEnd(
                Verdict.INFRA_FAILED,
                Reason.NODES_DIFFER,
                f"{name}: {facts[first].node_name} (node index {first}){others} has {values[first]}, "
                f"{len(values) - len(odd)} of {len(values)} nodes have {usual}: a gang needs equal nodes",
            )
    return None


def warnings(plan: RunPlan, facts: Facts) -> list[str]:
    """Return what does not prevent a run, but may explain why it fails or is slow."""
    found = []
    for index, one in sorted(facts.items()):
        where = f"{one.node_name} (node index {index})"
        if one.clock_offset_seconds is not None and abs(one.clock_offset_seconds) > CLOCK_SECONDS:
            found.append(f"the clock of {where} is {one.clock_offset_seconds:+.1f} s off the leader's")
        if plan.backend != "nccl":
            continue
        if one.shm_bytes < SHM_BYTES_PER_RANK * plan.ranks_per_node:
            found.append(f"the shared memory of {where} has {one.shm_bytes >> 20} MiB: NCCL may find it too small")
        if one.memlock_bytes != UNLIMITED and one.memlock_bytes < MEMLOCK_BYTES:
            found.append(f"{where} may lock {one.memlock_bytes >> 10} KiB of memory: RDMA will not work")
    return found
