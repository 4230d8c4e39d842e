"""Which nodes are fit to be tested together, and who is the odd one out."""

import dataclasses
from typing import Any

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import UNLIMITED, NodeFacts
from disttest_runner.agent import accelerator
from disttest_runner.agent.agent import inspect
from disttest_runner.leader import preflight
from tests.support.builders.run_plans import THREE_NODES as PLAN


def node(name: str, **changes: Any) -> NodeFacts:
    facts = NodeFacts(
        node_name=name,
        gpus=("NVIDIA H100 80GB HBM3",) * 8,
        driver="580.95.05",
        cuda_driver="13.0",
        shm_bytes=64 << 30,
        memlock_bytes=UNLIMITED,
        clock_offset_seconds=0.01,
        versions={"torch": "2.13.0", "cuda": "13.0", "nccl": "2.29.7", "python": "3.11.7"},
    )
    return dataclasses.replace(facts, **changes)


def gang(**odd: Any) -> dict[int, NodeFacts]:
    """Three nodes, of which the second has something of its own."""
    return {0: node("a"), 1: node("b", **odd), 2: node("c")}


@pytest.mark.parametrize(
    ("odd", "reason", "words"),
    [
        ({"gpus": ("H100",) * 7}, Reason.TOO_FEW_GPUS, "b (node index 1) sees 7 GPUs, but 8 ranks need one each"),
        ({"gpus": ()}, Reason.TOO_FEW_GPUS, "sees 0 GPUs"),
        ({"cuda_error": "cuInit answered 802"}, Reason.GPU_BROKEN, "on b (node index 1): cuInit answered 802"),
        (
            {"gpus": ("NVIDIA H200",) * 8},
            Reason.NODES_DIFFER,
            "GPUs: b (node index 1) has NVIDIA H200, 2 of 3 nodes have NVIDIA H100 80GB HBM3",
        ),
        ({"driver": "570.1"}, Reason.NODES_DIFFER, "the driver: b (node index 1) has 570.1, 2 of 3 nodes have 580.95"),
        ({"cuda_driver": "12.8"}, Reason.NODES_DIFFER, "the CUDA of the driver: b (node index 1) has 12.8"),
    ],
)
def test_a_node_that_cannot_do_its_part_is_named(odd: dict[str, Any], reason: Reason, words: str) -> None:
    stop = preflight.check_hardware(PLAN, gang(**odd))
    assert stop is not None
    assert (stop.verdict, stop.reason) == (Verdict.INFRA_FAILED, reason)
    assert words in stop.message
    assert preflight.check_hardware(dataclasses.replace(PLAN, backend="gloo"), gang(**odd)) is None


@pytest.mark.parametrize(
    ("key", "name"), [("torch", "torch"), ("cuda", "the CUDA of torch"), ("nccl", "NCCL"), ("python", "Python")]
)
def test_versions_that_differ_are_named_with_the_odd_node(key: str, name: str) -> None:
    versions = {**node("b").versions, key: "0.1"}
    stop = preflight.check_software(gang(versions=versions))
    assert stop is not None
    assert (stop.verdict, stop.reason) == (Verdict.INFRA_FAILED, Reason.NODES_DIFFER)
    assert stop.message.startswith(f"{name}: b (node index 1) has 0.1, 2 of 3 nodes have ")


def test_where_two_nodes_differ_the_leaders_is_the_measure() -> None:
    stop = preflight.check_hardware(PLAN, {0: node("a", driver="1"), 1: node("b", driver="2")})
    assert stop is not None
    assert stop.message.startswith("the driver: b (node index 1) has 2, 1 of 2 nodes have 1")


def test_ranks_may_share_a_gpu_where_nccl_was_told_so() -> None:
    assert preflight.check_hardware(PLAN, {0: node("a", gpus=("H100",), shares_gpus=True)}) is None
    assert preflight.check_hardware(PLAN, {0: node("a", gpus=(), shares_gpus=True)}) is not None


def test_equal_nodes_and_unknown_values_are_no_difference() -> None:
    assert preflight.check_hardware(PLAN, gang()) is None
    assert preflight.check_software(gang()) is None
    assert preflight.check_hardware(PLAN, gang(driver="")) is None
    assert preflight.check_software(gang(versions={})) is None


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"clock_offset_seconds": -3.2}, "the clock of b (node index 1) is -3.2 s off"),
        ({"shm_bytes": 64 << 20}, "the shared memory of b (node index 1) has 64 MiB"),
        ({"memlock_bytes": 8 << 20}, "b (node index 1) may lock 8192 KiB of memory"),
    ],
)
def test_what_may_explain_trouble_later_is_warned_of(odd: dict[str, Any], words: str) -> None:
    (warning,) = preflight.warnings(PLAN, gang(**odd))
    assert words in warning


def test_good_nodes_get_no_warnings() -> None:
    assert preflight.warnings(PLAN, gang()) == []


@pytest.mark.parametrize(("visible", "count"), [("", 0), ("-1", 0), ("0,2", 2), ("GPU-5b3,GPU-7aa,", 2)])
def test_only_visible_gpus_count(visible: str, count: int) -> None:
    assert len(accelerator.detect_devices({"CUDA_VISIBLE_DEVICES": visible}).products) == count


def test_cuda_that_cannot_be_initialised_says_why() -> None:
    error = accelerator.Cuda().initialization_error()
    assert "libcuda" in error or "cuInit answered" in error


def test_an_agent_can_say_what_its_node_is() -> None:
    facts = inspect("here", accelerator.of_backend("gloo"))
    assert facts.cpus > 0
    assert facts.memory_bytes > 1 << 20
    assert facts.kernel
    assert NodeFacts.from_json(facts.to_json()) == facts
