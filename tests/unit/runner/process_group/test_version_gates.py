"""Versions of torch and NCCL whose faults DistTest avoids."""

import pytest

from disttest_runner.process_group import torch_settings, version_gates


@pytest.mark.parametrize(
    ("torch", "passed"),
    [
        ("2.7.0", False),
        ("2.7.0+cu126", False),
        ("2.7.0a0+7c8ec84dab.nv25.03", False),
        ("2.7", False),
        ("2.7.1", True),
        ("2.7.1+cu128", True),
        ("2.8.0a0+5228986c39.nv25.06", True),
        ("2.10.0", True),
        ("2.13.0+cu130", True),
        ("unknown", True),
    ],
)
def test_torch_2_7_0_gets_no_device_id_since_it_hangs_with_one(torch: str, *, passed: bool) -> None:
    assert version_gates.takes_device_id(torch) is passed


@pytest.mark.parametrize(
    ("nccl", "value"),
    [
        ("2.21.5", "0"),
        ("2.26.2", "0"),
        ("2.26.4", "0"),
        ("2.26.5", None),
        ("2.27.3", None),
        ("2.29.7", None),
        ("", None),
    ],
)
def test_nccl_before_2_26_5_keeps_its_host_buffers_in_shared_memory(nccl: str, value: str | None) -> None:
    assert torch_settings.of_versions(nccl).get("NCCL_CUMEM_HOST_ENABLE") == value


def test_a_users_choice_of_host_buffers_wins_and_is_named() -> None:
    environ = {"NCCL_CUMEM_HOST_ENABLE": "1"}
    sentences = torch_settings.apply(environ, torch_settings.of_versions("2.26.2"))
    assert sentences == ["NCCL_CUMEM_HOST_ENABLE=1 is set. DistTest's value is 0."]
    assert environ["NCCL_CUMEM_HOST_ENABLE"] == "1"


A100, L40, H100, B200 = (8, 0), (8, 9), (9, 0), (10, 0)


@pytest.mark.parametrize(
    ("nccl", "torch", "capability", "is_refused"),
    [
        ("2.23.4", "2.8.0", A100, False),
        ("2.24.3", "2.8.0", A100, True),
        ("2.27.3", "2.8.0+cu128", A100, True),
        ("2.27.7", "2.9.1", L40, True),
        ("2.27.7", "unknown", L40, True),
        ("2.26.2", "2.7.1", A100, False),  # sent as bytes
        ("2.28.3", "2.9.1", A100, False),
        ("2.29.7", "2.13.0", A100, False),
        ("2.24.3", "2.8.0", H100, False),
        ("2.27.3", "2.8.0", B200, False),
        ("", "2.8.0", A100, False),
    ],
)
def test_nccl_2_24_to_2_27_refuses_float8_below_compute_capability_9(
    nccl: str, torch: str, capability: tuple[int, int], *, is_refused: bool
) -> None:
    assert bool(version_gates.float8_gap(nccl, torch, capability)) is is_refused


def test_the_reason_names_the_version_and_the_gpu() -> None:
    assert version_gates.float8_gap("2.27.3", "2.8.0", A100) == (
        "NCCL 2.27.3 refuses float8 below compute capability 9.0, and this GPU has 8.0"
    )
