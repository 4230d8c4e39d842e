"""Every built-in suite computes on its rank's GPU and for its world, seen with fake tensors: no GPU, no kernel."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from disttest_contract.gang.suites import BUILTIN
from tests.support import patience
from tests.support.gangs import pretended_gpus

pytestmark = pytest.mark.skipif(pretended_gpus.COMPILER is None, reason="no C compiler here")
PROGRAM = "tests.support.gangs.dry_run"
SECONDS = patience.stretched(1800)
# Two slices of values, and only one timed call.
ENVIRONMENT = {"COLLECTIVES_SIZES": "4K,8M", "COLLECTIVES_ITERATIONS": "1"}
GOOD = {"passed", "xfailed", "idle"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    suite: str
    world_size: int
    rank: int
    select: str = ""
    plant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Cases that cannot run with fake tensors, recognised by a pattern in their id and a part of their error."""

    suite: str
    cases: str
    error: str
    reason: str


NO_KERNEL = "CUDA error: no CUDA-capable device is detected"
GAPS = (
    Gap(
        suite="collectives",
        cases="_of_objects",
        error="gets a tensor on cpu",
        reason="objects are bytes of tensors, which torch leaves on the CPU for its fake group",
    ),
    Gap(
        suite="fsdp-exec-order",
        cases="test_another_order_in_the_first_iteration",
        error="DID NOT RAISE",
        reason="the order of another rank is received as values",
    ),
    Gap(
        suite="pipeline-schedules",
        cases="test_gradients_of_a_model_cut_by_hand",
        error="inputs metadata required",
        reason="the shapes of the stage before are received as values",
    ),
    Gap(suite="data-parallel", cases="adam_fused-step", error=NO_KERNEL, reason="the compiler calls a fused kernel"),
    Gap(
        suite="data-parallel",
        cases=r"test_non_0_batch_dim\[.*-step",
        error=NO_KERNEL,
        reason="with its fused Adam, if the step is compiled",
    ),
    Gap(
        suite="replicate-compile",
        cases=r"test_compile\[forward",
        error=NO_KERNEL,
        reason="Inductor runs what it has compiled",
    ),
    Gap(suite="replicate-compile", cases="test_bucketing", error=NO_KERNEL, reason="same"),
)

SAMPLE = (
    Task(suite="collectives", world_size=16, rank=8, select="float32 or not (every_element or bandwidth)"),
    Task(suite="fully-shard-autograd", world_size=8, rank=7),
    Task(suite="fsdp-exec-order", world_size=16, rank=0, select="full_shard"),
    Task(
        suite="pipeline-schedules",
        world_size=8,
        rank=4,
        select="keyword and 1F1B or LoopedBFS and two_stages or ones_own and unbalanced",
    ),
    Task(suite="data-parallel", world_size=16, rank=15, select="eager or test_fused"),
    Task(suite="replicate-compile", world_size=8, rank=0, select="backward_only"),
)
OTHER_WORLD = "in a group of 8 ranks: "
# What must be noticed, and the words with which it is.
PLANTED = {
    Task(suite="collectives", world_size=8, rank=4, select="bfloat16-1031", plant="a buffer without device="): [
        f"{name} gets a tensor on cpu, but the device of this rank is cuda:4"
        for name in ("_allgather_base_", "_reduce_scatter_base_", "alltoall_base_", "broadcast_", "scatter_", "recv_")
    ],
    Task(suite="collectives", world_size=8, rank=4, select="bfloat16-1031", plant="positions without device="): [
        "device cuda:4 instead of cpu"
    ],
    Task(suite="collectives", world_size=8, rank=7, select="bfloat16-1031", plant="buffers for one rank more"): [
        f"_allgather_base_ {OTHER_WORLD}9279 elements for all ranks, but 1031 for one",
        f"_reduce_scatter_base_ {OTHER_WORLD}9279 elements for all ranks, but 1031 for one",
        f"alltoall_base_ {OTHER_WORLD}9279 elements cannot be divided",
        f" gather_ {OTHER_WORLD}tensors of different sizes",
        f" scatter_ {OTHER_WORLD}tensors of different sizes",
    ],
    Task(
        suite="collectives",
        world_size=8,
        rank=0,
        select="uneven or into_a_list or in_turn",
        plant="a gang of one rank more",
    ): [f"alltoall_base_ {OTHER_WORLD}", f"allgather_ {OTHER_WORLD}a list of 9 tensors", "rank 8"],
    Task(suite="fully-shard-autograd", world_size=8, rank=4, select="dict", plant="batches on the first GPU"): [
        "found at least two devices, cuda:0 and cuda:4"
    ],
    Task(suite="fully-shard-autograd", world_size=8, rank=4, select="dict", plant="shards of half of the ranks"): [
        "shape torch.Size([3, 24]) instead of torch.Size([6, 24])"
    ],
    Task(suite="pipeline-schedules", world_size=8, rank=4, select="LoopedBFS", plant="data of a pipeline on the CPU"): [
        "found at least two devices, cpu and cuda:4"
    ],
}
Outcomes = dict[str, dict[str, str]]  # of each case: its word and message


def dry_run(tasks: Iterable[Task], folder: Path) -> dict[Task, Outcomes]:
    gpus = pretended_gpus.build(folder / "gpus", **pretended_gpus.EIGHT)
    environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM],
        input="\n".join(json.dumps(asdict(task)) for task in tasks),
        env={**environ, **ENVIRONMENT, **gpus.environ_with_runtime},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found = {Task(**answer["task"]): answer["outcomes"] for answer in answers}
    assert found.keys() == set(tasks), done.stderr
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Outcomes]:
    """One process for all: it imports torch's compiler, which takes seconds."""
    return dry_run((*SAMPLE, *PLANTED), tmp_path_factory.mktemp("dry"))


def check(answers: dict[Task, Outcomes]) -> None:
    """Cases of one suite are good, except for gaps, each of which is needed on some rank."""
    bad, needed, good = {}, set[str](), set[str]()
    for task, outcomes in answers.items():
        for case_id, found in outcomes.items():
            if found["word"] in GOOD:
                good.add(case_id)
            elif any(gap.error in found["message"] for gap in gaps_of(task.suite, case_id)):
                needed.add(case_id)
            else:
                bad[task.world_size, task.rank, case_id] = found
    assert not bad
    unnecessary = {case_id for case_id in good - needed if gaps_of(next(iter(answers)).suite, case_id)}
    assert not unnecessary, "these cases run: remove them from GAPS"


def gaps_of(suite: str, case_id: str) -> list[Gap]:
    return [gap for gap in GAPS if gap.suite == suite and re.search(gap.cases, case_id)]


def tasks_of(suite: str, world_size: int) -> tuple[Task, ...]:
    ranks = (0, world_size // 2, world_size - 1)
    return tuple(Task(suite=suite, world_size=world_size, rank=rank) for rank in ranks)


@cache
def suites() -> list[str]:
    """All except torch's own, whose cases start processes."""
    return sorted(BUILTIN.keys() - {"c10d-spawn"})


@pytest.mark.parametrize("task", SAMPLE, ids=lambda task: task.suite)
def test_cases_of_a_suite_stay_on_the_gpu_of_their_rank(task: Task, answers: dict[Task, Outcomes]) -> None:
    assert any(found["word"] == "passed" for found in answers[task].values())
    check({task: answers[task]})


def test_the_sample_has_every_suite() -> None:
    assert sorted(task.suite for task in SAMPLE) == suites()


@pytest.mark.parametrize("task", PLANTED, ids=lambda task: task.plant)
def test_a_planted_fault_is_noticed(task: Task, answers: dict[Task, Outcomes]) -> None:
    messages = [found["message"] for found in answers[task].values() if found["word"] == "failed"]
    assert messages
    assert [words for words in PLANTED[task] if not any(words in message for message in messages)] == []


@pytest.mark.parametrize(
    ("word", "message", "problem"),
    [("passed", "", "remove them from GAPS"), ("failed", "another error", "another error")],
    ids=["a gap that is filled", "another error in a gap"],
)
def test_a_gap_excuses_its_own_error_only(word: str, message: str, problem: str) -> None:
    task = Task(suite="collectives", world_size=8, rank=0)
    with pytest.raises(AssertionError, match=problem):
        check({task: {"test_all_gather_of_objects": {"word": word, "message": message}}})


@pytest.mark.soak
@pytest.mark.parametrize("world_size", [8, 16])
@pytest.mark.parametrize("suite", suites())
def test_all_cases_of_a_suite_run_on_the_first_a_middle_and_the_last_rank(
    suite: str, world_size: int, tmp_path: Path
) -> None:
    check(dry_run(tasks_of(suite, world_size), tmp_path))
