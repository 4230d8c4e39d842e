"""What an agent finds out about a driver, and what the preflight makes of it: seen with drivers that are pretended."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import NodeFacts
from disttest_runner.leader import preflight
from tests.support import patience
from tests.support.builders.run_plans import THREE_NODES
from tests.support.gangs import pretended_gpus

NCCL = dataclasses.replace(THREE_NODES, nodes=1, ranks_per_node=2)
SECONDS = patience.stretched(60)
pytestmark = pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="no C compiler here")
INSPECT = """
import json, sys
from disttest_runner.agent import accelerator, agent
print(json.dumps(agent.inspect(sys.argv[1], accelerator.of_backend("nccl")).to_json()))
"""


def facts(*drivers: pretended_gpus.Pretended, name: str = "node-a", **environ: str) -> NodeFacts:
    """Return what an agent finds if its loader searches the folders of these drivers in this order."""
    path = ":".join(str(driver.folder) for driver in drivers)
    inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    command = [sys.executable, "-c", INSPECT, name]
    variables = {**inherited, "LD_LIBRARY_PATH": path, **environ}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=True)
    return NodeFacts.from_json(json.loads(done.stdout))


def with_torch_for(cuda: str, found: NodeFacts) -> dict[int, NodeFacts]:
    return {0: NodeFacts.from_json({**found.to_json(), "versions": {"torch": "2.13.0", "cuda": cuda}})}


def test_a_torch_for_a_newer_cuda_than_the_drivers_is_refused_with_both_versions(tmp_path: Path) -> None:
    found = facts(pretended_gpus.build(tmp_path / "driver", cuda=12020, cuinit=0, cuda_gpus=2))
    end = preflight.check_software(NCCL, with_torch_for("13.0", found))
    assert end is not None
    assert (end.verdict, end.reason) == (Verdict.ERRORED, Reason.DRIVER_TOO_OLD)
    assert "torch of this image needs a driver for CUDA 13, but driver 1.2.3 of node-a" in end.message
    assert "supports only CUDA 12.2" in end.message
    assert end.at_fault == ()


def test_the_compatibility_package_of_an_image_counts_if_the_loader_finds_it_first(tmp_path: Path) -> None:
    driver = pretended_gpus.build(tmp_path / "driver", cuda=12020, cuinit=0, cuda_gpus=2)
    compat = pretended_gpus.build(tmp_path / "compat", cuda=13000, cuinit=0, cuda_gpus=2)
    (compat.folder / "libnvidia-ml.so.1").unlink()
    assert facts(driver, compat).cuda_driver == "12.2"
    found = facts(compat, driver)
    assert found.cuda_driver == "13.0"
    assert preflight.check_software(NCCL, with_torch_for("13.0", found)) is None


def test_a_driver_that_finds_fewer_gpus_than_nvml_decides(tmp_path: Path) -> None:
    found = facts(pretended_gpus.build(tmp_path / "driver", nvml_gpus=8, cuinit=0, cuda_gpus=7))
    assert found.gpus == ("pretended",) * 7


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (802, "the fabric manager of the node is not running"),
        (803, "restart the node after an update of its driver"),
        (804, "the compatibility package of the image does not support these GPUs"),
    ],
)
def test_an_error_of_the_driver_is_explained(tmp_path: Path, code: int, words: str) -> None:
    found = facts(pretended_gpus.build(tmp_path / "driver", cuinit=code))
    assert found.cuda_error.startswith(f"cuInit returned {code}: pretended")
    assert words in found.cuda_error
    assert found.gpus == ("pretended",) * 2
    end = preflight.check_hardware(NCCL, {0: found})
    assert end is not None
    assert (end.reason, end.at_fault) == (Reason.GPU_UNHEALTHY, (0,))


def test_memory_of_gpus_of_other_users_is_not_read(tmp_path: Path) -> None:
    driver = pretended_gpus.build(tmp_path / "driver", nvml_gpus=8)
    code = "import os; from disttest_runner.agent.accelerator import Cuda; print(dict(Cuda().used_bytes(os.environ)))"
    command = [sys.executable, "-c", code]
    for listed, expected in (("3,5", "{'GPU 3': 3221225472, 'GPU 5': 5368709120}"), ("GPU-2", "{'GPU 2': 2147483648}")):
        variables = {**os.environ, "LD_LIBRARY_PATH": str(driver.folder), "CUDA_VISIBLE_DEVICES": listed}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=True)
        assert done.stdout.strip() == expected


def test_output_of_the_library_of_the_driver_is_ignored(tmp_path: Path) -> None:
    found = facts(pretended_gpus.build(tmp_path / "driver", cuinit=0, cuda_gpus=2, noise=1))
    assert (found.cuda_error, found.gpus) == ("", ("pretended",) * 2)


def test_where_the_library_of_the_driver_is_missing_nvml_has_the_version(tmp_path: Path) -> None:
    driver = pretended_gpus.build(tmp_path / "driver")
    (driver.folder / "libcuda.so.1").unlink()
    found = facts(driver)
    assert "libcuda" in found.cuda_error
    assert found.cuda_driver == "13.0", "of NVML"


TWO_NODES = dataclasses.replace(THREE_NODES, nodes=2, ranks_per_node=8)
ODD_NODES = {
    "7 of 8 GPUs": (
        {"cuda_gpus": 7},
        Reason.INSUFFICIENT_GPUS,
        (
            "node-b (node index 1) has 7 GPUs, but 8 ranks need one GPU each. Check the device plugin of this node and "
            "CUDA_VISIBLE_DEVICES, or decrease `gpusPerNode` and `ranksPerNode`"
        ),
    ),
    "MIG": (
        {"mig_instances": 7, "cuda_gpus": 1},
        Reason.INSUFFICIENT_GPUS,
        (
            "node-b (node index 1) has 1 GPU, but 8 ranks need one GPU each. A process can use only one MIG instance. "
            "Disable MIG on this node, or set `ranksPerNode: 1`"
        ),
    ),
    "no fabric manager": (
        {"cuinit": 802},
        Reason.GPU_UNHEALTHY,
        (
            "CUDA cannot be initialized on node-b (node index 1): cuInit returned 802: pretended (the fabric manager "
            "of the node is not running). Check the driver of this node"
        ),
    ),
    "no GPU that the driver supports": (
        {"cuinit": pretended_gpus.NO_DEVICE},
        Reason.GPU_UNHEALTHY,
        (
            "CUDA cannot be initialized on node-b (node index 1): cuInit returned 100: pretended. Check the driver of "
            "this node"
        ),
    ),
    "an older driver": (
        {"cuda": 12080},
        Reason.NODES_DIFFER,
        (
            "the CUDA of the driver: node-b (node index 1) has 12.8, but 1 of 2 nodes have 13.0. All nodes of a gang "
            "must be equal"
        ),
    ),
}


def two_nodes(folder: Path, **odd: int) -> dict[int, NodeFacts]:
    """Return the facts of two nodes with 8 GPUs, of which the second has these numbers."""
    drivers = [
        pretended_gpus.build(folder / name, **{**pretended_gpus.EIGHT, **numbers})
        for name, numbers in (("node-a", {}), ("node-b", odd))
    ]
    return {index: facts(driver, name=driver.folder.name) for index, driver in enumerate(drivers)}


def test_two_nodes_with_eight_gpus_are_accepted(tmp_path: Path) -> None:
    found = two_nodes(tmp_path)
    assert [len(node.gpus) for node in found.values()] == [8, 8]
    assert preflight.check_hardware(TWO_NODES, found) is None
    assert not any("GPUs of" in warning for warning in preflight.warnings(TWO_NODES, found))


@pytest.mark.parametrize(("odd", "reason", "message"), ODD_NODES.values(), ids=ODD_NODES)
def test_the_node_that_is_not_in_order_is_named_with_the_next_step(
    odd: dict[str, int], reason: Reason, message: str, tmp_path: Path
) -> None:
    end = preflight.check_hardware(TWO_NODES, two_nodes(tmp_path, **odd))
    assert end is not None
    assert (end.verdict, end.reason, end.message) == (Verdict.INFRA_FAILED, reason, message)


def test_gpus_that_other_processes_use_are_named_before_the_ranks_start(tmp_path: Path) -> None:
    found = two_nodes(tmp_path, busy=1)
    assert preflight.check_hardware(TWO_NODES, found) is None
    (warning,) = (one for one in preflight.warnings(TWO_NODES, found) if one.startswith("GPUs of"))
    assert warning.startswith(
        "GPUs of node-b (node index 1) have memory in use before the ranks start (GPU 3: 3.0 GiB, GPU 4: 4.0 GiB"
    )
    assert "End the processes that use them" in warning
