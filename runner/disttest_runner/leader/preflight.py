"""Checks whether the nodes of a gang can be tested together, from the facts that each reported. No I/O."""

from collections import Counter
from collections.abc import Callable, Mapping

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_contract.text import formatting
from disttest_runner.protocol.join_protocol import RunEnd

CLOCK_SECONDS = 1.0  # apart: more makes logs of different nodes hard to compare
SHM_BYTES_PER_RANK = 32 << 20  # NCCL keeps buffers of a few MiB for each pair of ranks of a node there
MEMLOCK_BYTES = 64 << 20  # RDMA registers memory, which must be locked

MOST_GPUS = 16  # in a sentence
ADVICE = "Check the device plugin of this node and CUDA_VISIBLE_DEVICES, or decrease `gpusPerNode` and `ranksPerNode`"
MIG_ADVICE = "A process can use only one MIG instance. Disable MIG on this node, or set `ranksPerNode: 1`"

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
            Reason.INSUFFICIENT_GPUS,
            f"{one.node_name} (node index {min(poor)}) has {formatting.counted(len(one.gpus), 'GPU')}, "
            f"but {plan.ranks_per_node} ranks need one GPU each. {MIG_ADVICE if _has_mig(one) else ADVICE}",
            at_fault=tuple(sorted(poor)),
        )
    broken = [index for index, one in facts.items() if one.cuda_error]
    if broken:
        one = facts[min(broken)]
        return RunEnd(
            Verdict.INFRA_FAILED,
            Reason.GPU_UNHEALTHY,
            f"CUDA cannot be initialized on {one.node_name} (node index {min(broken)}): {one.cuda_error}. "
            "Check the driver of this node",
            at_fault=tuple(sorted(broken)),
        )
    return _differing(facts, HARDWARE)


def _has_mig(facts: NodeFacts) -> bool:
    return any(" MIG " in name for name in facts.gpus)


def check_software(plan: RunPlan, facts: Facts) -> RunEnd | None:
    """Check versions as soon as every node has imported torch."""
    return _differing(facts, SOFTWARE) or (_old_driver(facts) if plan.backend == "nccl" else None)


def _old_driver(facts: Facts) -> RunEnd | None:
    """Within a major version, a driver runs what was built for a newer CUDA: this has been so since CUDA 11."""
    old = [index for index, one in sorted(facts.items()) if _major(one.cuda_driver) < _needed_major(one)]
    if not old:
        return None
    one, others = facts[old[0]], f" and {len(old) - 1} more" if len(old) > 1 else ""
    needed = _needed_major(one)
    return RunEnd(
        Verdict.ERRORED,
        Reason.DRIVER_TOO_OLD,
        f"torch of this image needs a driver for CUDA {needed}, but driver {one.driver} of {one.node_name} "
        f"(node index {old[0]}){others} supports only CUDA {one.cuda_driver}. Update the driver, use torch for CUDA "
        f"{_major(one.cuda_driver)}, or install NVIDIA's package cuda-compat for torch's CUDA "
        f"({one.versions.get('cuda', '')}) in the image and put /usr/local/cuda/compat first in LD_LIBRARY_PATH",
    )


def _needed_major(facts: NodeFacts) -> int:
    """0 where a version is unknown: such a node is not compared."""
    return _major(facts.versions.get("cuda", "")) if _major(facts.cuda_driver) else 0


def _major(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() else 0


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
                f"{name}: {facts[first].node_name} (node index {first}){others} has {values[first]}, but "
                f"{len(values) - len(odd)} of {len(values)} nodes have {usual}. All nodes of a gang must be equal",
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
        if one.busy_gpus:
            gpus = ", ".join(one.busy_gpus[:MOST_GPUS])
            found.append(
                f"GPUs of {where} have memory in use before the ranks start ({gpus}), so cases can fail for lack of "
                "memory. End the processes that use them, or check that the device plugin gives each GPU to one pod"
            )
        if one.shm_bytes < SHM_BYTES_PER_RANK * plan.ranks_per_node:
            found.append(f"the shared memory of {where} has {one.shm_bytes >> 20} MiB, which can be too small for NCCL")
        if one.memlock_bytes != UNLIMITED and one.memlock_bytes < MEMLOCK_BYTES:
            found.append(f"{where} can lock only {one.memlock_bytes >> 10} KiB of memory, so RDMA does not work")
    return found
