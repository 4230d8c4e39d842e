"""CUDA_VISIBLE_DEVICES as CUDA reads it, without CUDA."""

import pytest

from disttest_runner.agent.accelerator import UNKNOWN, Gpu, visible

H100 = "NVIDIA H100 80GB HBM3"
GPUS = tuple(Gpu(name=f"GPU {index}", uuid=f"GPU-{index}a{index}-77", product=H100) for index in range(8))
INSTANCES = tuple(
    Gpu(name=f"MIG instance {number} of GPU 1", uuid=f"MIG-{number}c-1", product=f"{H100} MIG 1g.10gb")
    for number in range(2)
)
DIVIDED = (GPUS[0], Gpu(name="GPU 1", uuid="GPU-1a1-77", product=H100, instances=INSTANCES))


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ("", ()),
        ("-1", ()),
        ("2,3", (2, 3)),
        (" 3 , 2", (3, 2)),
        ("0,-1,1", (0,)),
        ("0,8,1", (0,)),
        ("0,,1", (0,)),
        ("1,0,1", ()),
        ("GPU-5a5-77,GPU-3", (5, 3)),
        ("GPU-9,GPU-3", ()),
        ("GPU-,GPU-3", ()),  # of eight GPUs
        ("GPU-3a,GPU-3a3", ()),
        ("MIG-0c-1", ()),
    ],
)
def test_only_gpus_up_to_the_first_wrong_entry_are_visible(listed: str, expected: tuple[int, ...]) -> None:
    found = visible(GPUS, {"CUDA_VISIBLE_DEVICES": listed})
    assert found == tuple(GPUS[index] for index in expected)


def test_without_the_variable_all_gpus_are_visible() -> None:
    assert visible(GPUS, {}) == GPUS


def test_names_count_where_nvml_is_missing_and_no_uuid_is_known() -> None:
    files = [Gpu(name=f"nvidia{index}", uuid="", product=UNKNOWN) for index in range(4)]
    found = visible(files, {"CUDA_VISIBLE_DEVICES": "GPU-5b3,GPU-7aa,"})
    assert [gpu.product for gpu in found] == [UNKNOWN, UNKNOWN]
    assert visible(files, {"CUDA_VISIBLE_DEVICES": "1,0"}) == (files[1], files[0])


def test_a_number_is_no_gpu_where_there_is_none() -> None:
    assert visible((), {"CUDA_VISIBLE_DEVICES": "0,1"}) == ()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, INSTANCES[:1]),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, INSTANCES[:1]),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1c-1,MIG-0c-1"}, INSTANCES[1:]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-1a1"}, INSTANCES[:1]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0a0,MIG-1c"}, (GPUS[0], INSTANCES[1])),
    ],
)
def test_a_process_sees_one_mig_instance(environ: dict[str, str], expected: tuple[Gpu, ...]) -> None:
    assert visible(DIVIDED, environ) == expected


def test_numbers_of_different_gpus_follow_the_bus_only_if_cuda_is_told_to() -> None:
    slow = Gpu(name="GPU 0", uuid="GPU-5", product="NVIDIA T4")
    environ = {"CUDA_VISIBLE_DEVICES": "0"}
    assert visible((slow, GPUS[1]), environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (slow,)
    [found] = visible((slow, GPUS[1]), environ)
    assert (found.product, found.uuid) == (UNKNOWN, "")
