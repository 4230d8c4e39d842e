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
    """Return three nodes, of which the second has other facts."""
    return {0: node("a"), 1: node("b", **odd), 2: node("c")}


@pytest.mark.parametrize(
    ("odd", "reason", "words"),
    [
        (
            {"gpus": ("H100",) * 7},
            Reason.INSUFFICIENT_GPUS,
            "b (node index 1) has 7 GPUs, but 8 ranks need one GPU each",
        ),
        ({"gpus": ()}, Reason.INSUFFICIENT_GPUS, "has 0 GPUs"),
        ({"gpus": ("H100",)}, Reason.INSUFFICIENT_GPUS, "has 1 GPU, but"),
        ({"gpus": ("H100 MIG 1g.10gb",)}, Reason.INSUFFICIENT_GPUS, "only one MIG instance. Disable MIG on this node"),
        ({"gpus": ("H100",)}, Reason.INSUFFICIENT_GPUS, "of this node and CUDA_VISIBLE_DEVICES, or"),
        ({"cuda_error": "cuInit answered 802"}, Reason.GPU_UNHEALTHY, "on b (node index 1): cuInit answered 802"),
        (
            {"gpus": ("NVIDIA H200",) * 8},
            Reason.NODES_DIFFER,
            "GPUs: b (node index 1) has NVIDIA H200, but 2 of 3 nodes have NVIDIA H100 80GB HBM3",
        ),
        (
            {"driver": "570.1"},
            Reason.NODES_DIFFER,
            "the driver: b (node index 1) has 570.1, but 2 of 3 nodes have 580.95",
        ),
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
    stop = preflight.check_software(PLAN, gang(versions=versions))
    assert stop is not None
    assert (stop.verdict, stop.reason) == (Verdict.INFRA_FAILED, Reason.NODES_DIFFER)
    assert stop.message.startswith(f"{name}: b (node index 1) has 0.1, but 2 of 3 nodes have ")


@pytest.mark.parametrize(
    ("driver", "torch", "is_refused"),
    [
        ("12.2", "13.0", True),
        ("11.8", "12.0", True),
        ("12.2", "12.9", False),  # versions of one major version are compatible
        ("13.0", "12.6", False),
        ("", "13.0", False),
        ("12.2", "", False),  # torch without CUDA
        ("12.2", "rocm", False),
    ],
)
def test_a_driver_must_support_the_major_cuda_version_of_torch(driver: str, torch: str, is_refused: bool) -> None:  # noqa: FBT001  # a column of the table
    versions = {"torch": "2.13.0", "cuda": torch}
    facts = {index: node(name, cuda_driver=driver, versions=versions) for index, name in enumerate("abc")}
    stop = preflight.check_software(PLAN, facts)
    assert (stop is not None) is is_refused
    if stop:
        assert (stop.verdict, stop.reason, stop.at_fault) == (Verdict.ERRORED, Reason.DRIVER_TOO_OLD, ())
        major = torch.partition(".")[0]
        assert stop.message.startswith(
            f"torch of this image needs a driver for CUDA {major}, but driver 580.95.05 of a (node index 0) and 2 more "
            f"supports only CUDA {driver}. "
        )
        assert "/usr/local/cuda/compat" in stop.message
    assert preflight.check_software(dataclasses.replace(PLAN, backend="gloo"), facts) is None


def test_where_two_nodes_differ_the_leaders_is_the_measure() -> None:
    stop = preflight.check_hardware(PLAN, {0: node("a", driver="1"), 1: node("b", driver="2")})
    assert stop is not None
    assert stop.message.startswith("the driver: b (node index 1) has 2, but 1 of 2 nodes have 1")


def test_ranks_may_share_a_gpu_if_nccl_is_configured_for_that() -> None:
    assert preflight.check_hardware(PLAN, {0: node("a", gpus=("H100",), shares_gpus=True)}) is None
    assert preflight.check_hardware(PLAN, {0: node("a", gpus=(), shares_gpus=True)}) is not None


def test_equal_nodes_and_unknown_values_are_no_difference() -> None:
    assert preflight.check_hardware(PLAN, gang()) is None
    assert preflight.check_software(PLAN, gang()) is None
    assert preflight.check_hardware(PLAN, gang(driver="")) is None
    assert preflight.check_software(PLAN, gang(versions={})) is None


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"clock_offset_seconds": -3.2}, "the clock of b (node index 1) is -3.2 s off"),
        (
            {"busy_gpus": ("GPU 3: 70.0 GiB",)},
            "GPUs of b (node index 1) have memory in use before the ranks start (GPU 3",
        ),
        ({"shm_bytes": 64 << 20}, "of b (node index 1) has 64 MiB"),
        ({"memlock_bytes": 8 << 20}, "b (node index 1) can lock only 8192 KiB of memory"),
    ],
)
def test_what_may_explain_trouble_later_is_warned_of(odd: dict[str, Any], words: str) -> None:
    (warning,) = preflight.warnings(PLAN, gang(**odd))
    assert words in warning


def test_good_nodes_get_no_warnings() -> None:
    assert preflight.warnings(PLAN, gang()) == []


def test_cuda_that_cannot_be_initialised_says_why() -> None:
    error = accelerator.Cuda().initialized(accelerator.Devices()).error
    assert "libcuda" in error or "cuInit returned" in error


def test_an_agent_can_say_what_its_node_is() -> None:
    facts = inspect("here", accelerator.of_backend("gloo"))
    assert facts.cpus > 0
    assert facts.memory_bytes > 1 << 20
    assert facts.kernel
    assert NodeFacts.from_json(facts.to_json()) == facts
