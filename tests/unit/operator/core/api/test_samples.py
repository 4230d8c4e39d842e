"""The sample DistTests in manifests/."""

from pathlib import Path

import pytest
import yaml

from disttest_cli.input import manifests
from disttest_contract.gang.suites import BUILTIN
from disttest_operator.core.api import allowances
from disttest_operator.core.api.model import Backend, Defaults, DistTest
from disttest_operator.core.api.parse import parse
from disttest_operator.core.workload.run_plan import unknown_suites
from disttest_runner.suites.collectives.arguments import Arguments
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
OTHERS = {"operator-rules"}  # samples that are no DistTest
SAMPLES = sorted(path for path in (MANIFESTS / "samples").glob("*.yaml") if path.stem not in OTHERS)

NIGHTS = sorted((MANIFESTS / "nightly").glob("*x8.yaml"))


def read(path: Path) -> DistTest:
    """The DistTest of a file, which may contain other documents."""
    documents = list(yaml.safe_load_all(path.read_text()))
    [body] = [document for document in documents if document["kind"] == "DistTest"]
    return parse(body, Defaults(image="runner"))


def test_there_is_a_sample_for_each_way_to_run() -> None:
    names = {
        "cpu-all",
        "cpu-smoke",
        "gpu-1x8",
        "gpu-2x8-nccl",
        "gpu-2x8-rdma",
        "kueue-queue",
        "own-image",
        "quarantine",
    }
    assert {path.stem for path in SAMPLES} == names


@pytest.mark.parametrize("path", [*SAMPLES, *NIGHTS], ids=lambda path: path.stem)
def test_it_parses_and_names_suites_that_exist(path: Path) -> None:
    test = read(path)
    assert unknown_suites(test.spec) == ()


def test_the_demo_runs_every_suite_of_our_own() -> None:
    names = [suite.builtin for suite in read(MANIFESTS / "samples/cpu-all.yaml").spec.suites]
    assert sorted(names) == sorted(set(BUILTIN) - {"c10d-spawn"})


def test_the_list_of_known_failures_can_be_read() -> None:
    documents = manifests.read(str(MANIFESTS / "samples/quarantine.yaml"))
    [test] = documents.tests
    lists = manifests.find_quarantine(test, documents.config_maps, {})
    assert lists == {"collectives": ("*::test_all_to_all_of_uneven_parts",)}


def test_the_sizes_of_collectives_can_be_read_by_the_suite() -> None:
    [suite] = [suite for suite in read(MANIFESTS / "samples/gpu-2x8-nccl.yaml").spec.suites if suite.env]
    arguments = Arguments.read(dict(suite.env), "nccl")
    assert arguments.sizes_bytes == (1 << 20, 32 << 20, 1 << 30, 8 << 30)
    assert arguments.dtypes == ("float32", "bfloat16")


def test_the_thresholds_of_the_sample_are_about_sizes_that_it_measures() -> None:
    text = (MANIFESTS / "samples/gpu-2x8-nccl.yaml").read_text()
    start = text.index("  # thresholds:")
    body = yaml.safe_load(text[:start] + text[start:].replace("  # ", "  "))
    spec = parse(body, Defaults(image="runner")).spec
    [suite] = [suite for suite in spec.suites if suite.env]
    assert len(spec.thresholds) == 3
    assert {one.size_bytes for one in spec.thresholds} <= set(Arguments.read(dict(suite.env), "nccl").sizes_bytes)


def test_the_nights_are_of_one_two_and_four_nodes() -> None:
    shapes = {read(path).spec.series: (read(path).spec.nodes, read(path).spec.gpus_per_node) for path in NIGHTS}
    assert shapes == {"nightly-1x8": (1, 8), "nightly-2x8": (2, 8), "nightly-4x8": (4, 8)}


@pytest.mark.parametrize("name", ["cpu-smoke", "cpu-all", "quarantine"])
def test_samples_without_gpus_need_no_second_node(name: str) -> None:
    spec = read(MANIFESTS / f"samples/{name}.yaml").spec
    assert (spec.backend, spec.gpus, spec.world_size, spec.placement) == (Backend.GLOO, 0, 4, "Any")


def test_only_the_sample_of_an_own_image_names_one() -> None:
    assert [path.stem for path in SAMPLES if read(path).has_own_image] == ["own-image"]


def test_only_the_sample_of_rdma_needs_an_allowance() -> None:
    needed = {path.stem: [f"{need.kind} {need.value}" for _, need in allowances.needs(read(path))] for path in SAMPLES}
    assert {name: items for name, items in needed.items() if items} == {
        "gpu-2x8-rdma": ["root ", "capability IPC_LOCK"]
    }


def test_the_two_nodes_of_eight_make_sixteen_ranks_over_nccl() -> None:
    spec = read(MANIFESTS / "samples/gpu-2x8-nccl.yaml").spec
    assert (spec.backend, spec.gpus, spec.world_size, spec.placement) == (Backend.NCCL, 16, 16, "Spread")
