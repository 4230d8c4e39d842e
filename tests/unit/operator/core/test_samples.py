"""The DistTests that people are given to copy."""

from pathlib import Path

import pytest
import yaml

from disttest_operator.core.model import Backend, Defaults, DistTest
from disttest_operator.core.parse import parse
from disttest_operator.core.run_plan import unknown_suites

MANIFESTS = Path(__file__).parents[4] / "manifests"
SAMPLES = sorted((MANIFESTS / "samples").glob("*.yaml"))


def read(path: Path) -> DistTest:
    return parse(yaml.safe_load(path.read_text()), Defaults(image="runner"))


def test_there_is_a_sample_for_each_way_to_run() -> None:
    assert {path.stem for path in SAMPLES} == {"cpu-smoke", "gpu-1x8", "gpu-2x8-nccl", "kueue-queue"}


@pytest.mark.parametrize("path", [*SAMPLES, MANIFESTS / "nightly/nightly.yaml"], ids=lambda path: path.stem)
def test_it_parses_and_names_suites_that_exist(path: Path) -> None:
    test = read(path)
    assert unknown_suites(test.spec) == ()


def test_the_smoke_test_needs_no_gpu_and_no_second_node() -> None:
    spec = read(MANIFESTS / "samples/cpu-smoke.yaml").spec
    assert (spec.backend, spec.gpus, spec.world_size, spec.placement) == (Backend.GLOO, 0, 4, "Any")


def test_the_two_nodes_of_eight_make_sixteen_ranks_over_nccl() -> None:
    spec = read(MANIFESTS / "samples/gpu-2x8-nccl.yaml").spec
    assert (spec.backend, spec.gpus, spec.world_size, spec.placement) == (Backend.NCCL, 16, 16, "Spread")
