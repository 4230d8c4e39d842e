"""The table of `make gpu` never reports more than its rows have proved."""

from collections.abc import Mapping

import pytest

from tests.support.gangs import gpu_table
from tests.support.gangs.gpu_table import Machine, Phase, Ranks, Row, State

H100 = "NVIDIA H100 80GB HBM3"
MACHINE = Machine(
    gpus=(H100, H100),
    driver="580.65.06",
    driver_cuda="13.0",
    torch="2.13.0+cu130",
    torch_cuda="13.0",
    nccl="2.29.7",
    ranks=2,
    transport="P2P/CUMEM",
)
PASSED = [Phase(when=when, outcome="passed", seconds=1) for when in ("setup", "call", "teardown")]
SETUP, CALL, TEARDOWN = PASSED


def failed(when: str) -> Phase:
    return Phase(when=when, outcome="failed", text=f"wrong in {when}", seconds=1)


def skipped(when: str) -> Phase:
    return Phase(when=when, outcome="skipped", text="needs two ranks")


@pytest.mark.parametrize(
    ("phases", "state", "details"),
    [
        (PASSED, State.PROVED, "2 ranks, 12 GB/s"),
        ([SETUP, failed("call"), TEARDOWN], State.FAILED, "wrong in call"),
        ([failed("setup"), TEARDOWN], State.FAILED, "wrong in setup"),
        ([SETUP, CALL, failed("teardown")], State.FAILED, "wrong in teardown"),
        ([SETUP, skipped("call"), failed("teardown")], State.FAILED, "wrong in teardown"),
        ([skipped("setup"), TEARDOWN], State.NOT_PROVED, "needs two ranks"),
        ([SETUP, skipped("call"), TEARDOWN], State.NOT_PROVED, "needs two ranks"),
        ([SETUP], State.NOT_PROVED, "it did not run"),
        ([SETUP, TEARDOWN], State.NOT_PROVED, "it did not run"),
        ([], State.NOT_PROVED, "it did not run"),
    ],
)
def test_only_a_call_that_passed_proves_a_row(phases: list[Phase], state: State, details: str) -> None:
    found = gpu_table.row("claim", phases, ["2 ranks", "12 GB/s"])
    assert (found.claim, found.state, found.details) == ("claim", state, details)


def rows(*states: State) -> list[Row]:
    return [Row(claim=f"claim {number}", state=state) for number, state in enumerate(states)]


@pytest.mark.parametrize(
    ("states", "backend", "code"),
    [
        ((State.PROVED, State.PROVED), "nccl", 0),
        ((State.PROVED, State.NOT_PROVED), "nccl", 3),
        ((State.NOT_PROVED,), "nccl", 3),
        ((), "nccl", 3),
        ((State.PROVED, State.NOT_PROVED, State.FAILED), "nccl", 1),
        ((State.PROVED,), "gloo", 3),
        ((State.FAILED,), "gloo", 1),
    ],
)
def test_the_exit_code_is_0_only_if_every_row_was_proved_on_gpus(
    states: tuple[State, ...], backend: str, code: int
) -> None:
    assert gpu_table.exit_code(rows(*states), Machine(backend=backend)) == code


def test_the_table_can_be_pasted_into_an_issue() -> None:
    found = [
        Row(claim="all_reduce", state=State.PROVED, details="2 ranks", seconds=9.6),
        Row(claim="A crash", state=State.FAILED, details="AssertionError: a | b\nmore"),
        Row(claim="RAS", details="needs two ranks"),
    ]
    text = gpu_table.render(found, MACHINE, 61.2)
    assert text.splitlines() == [
        "`make gpu`: 1 proved, 1 failed, 1 not proved in 61 s",
        "",
        "- GPUs: `2 x NVIDIA H100 80GB HBM3`",
        "- ranks: `2`",
        "- torch: `2.13.0+cu130 (CUDA 13.0)`",
        "- driver: `580.65.06 (CUDA 13.0)`",
        "- NCCL: `2.29.7`",
        "- transport: `P2P/CUMEM`",
        "",
        "| Claim | Result | Details | Seconds |",
        "| --- | --- | --- | ---: |",
        "| all_reduce | proved | `2 ranks` | 10 |",
        text.splitlines()[12],
        "| RAS | not proved | `needs two ranks` | 0 |",
    ]
    assert text.splitlines()[12].startswith("| A crash | **failed** | `AssertionError: a ¦ b")


def test_no_row_is_proved_on_the_cpu() -> None:
    text = gpu_table.render(rows(State.PROVED, State.FAILED), Machine(backend="gloo", ranks=2), 5)
    assert text.startswith("`make gpu`: 1 passed on the CPU, 1 failed, 0 not proved in 5 s\n")
    assert "| claim 0 | passed on the CPU |" in text
    assert "- GPUs: `none`" in text
    assert "- transport: `unknown`" in text


NCCL = {"CUDA_VISIBLE_DEVICES": "0"}


@pytest.mark.parametrize(
    ("gpus", "nccl", "environ", "expected"),
    [
        (8, "2.29.7", {}, Ranks(number=8, environ={"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"})),
        (2, "", {"CUDA_VISIBLE_DEVICES": "5,3"}, Ranks(number=2, environ={"CUDA_VISIBLE_DEVICES": "5,3"})),
        (1, "2.30.7", {}, Ranks(number=2, environ=NCCL | {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})),
        (1, "3.0.1", {}, Ranks(number=2, environ=NCCL | {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})),
    ],
)
def test_there_is_a_rank_for_each_visible_gpu_and_two_for_one(
    gpus: int, nccl: str, environ: Mapping[str, str], expected: Ranks
) -> None:
    assert gpu_table.choose_ranks(gpus, nccl=nccl, torch_cuda="13.0", environ=environ) == expected


@pytest.mark.parametrize("nccl", ["2.29.7", "2.9.9", ""])
def test_an_older_nccl_on_one_gpu_names_the_command_for_a_newer_one(nccl: str) -> None:
    found = gpu_table.choose_ranks(1, nccl=nccl, torch_cuda="12.8", environ={})
    assert (found.number, found.environ) == (1, NCCL)
    assert f"NCCL {nccl or 'unknown'} is loaded" in found.missing
    assert "the package nvidia-nccl-cu12 and run" in found.missing
    assert found.missing.endswith("LD_PRELOAD=/path/to/nvidia/nccl/lib/libnccl.so.2 make gpu")
    row = Row(claim="needs two ranks", details=found.missing)
    assert f"`{found.missing}`" in gpu_table.render([row], MACHINE, 1), "it is not cut"


def test_a_user_can_forbid_two_ranks_on_one_gpu() -> None:
    environ = {"NCCL_MULTI_RANK_GPU_ENABLE": "0"}
    found = gpu_table.choose_ranks(1, nccl="2.32.3", torch_cuda="13.0", environ=environ)
    assert (found.number, found.missing) == (
        1,
        "two ranks on one GPU need NCCL_MULTI_RANK_GPU_ENABLE=1, but it is '0'",
    )


@pytest.mark.parametrize(
    ("machine", "environ", "words"),
    [
        (Machine(torch="2.13.0+cpu"), {}, "torch 2.13.0+cpu is built without CUDA"),
        (Machine(torch_cuda="13.0"), {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES is ''"),
        (Machine(torch_cuda="13.0", gpus=(H100,), driver="1.2"), {}, "although its driver (1.2) finds 1 GPU"),
        (Machine(torch_cuda="13.0"), {}, "there is no NVIDIA driver"),
    ],
)
def test_without_a_gpu_the_reason_is_named(machine: Machine, environ: Mapping[str, str], words: str) -> None:
    found = gpu_table.why_no_gpu(machine, environ)
    assert found.startswith("Nothing was proved: torch finds no GPU on this machine")
    assert words in found
