"""`disttest run`: which options go together, what they make, and what becomes of GPUs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_cli.errors import UsageError
from disttest_cli.input import manifests
from disttest_cli.local import local_plans, run_request
from disttest_cli.local.local_plans import NO_END_SECONDS, LocalPlaces
from disttest_cli.local.run_request import Folder, RunRequest
from disttest_contract.gang.plan import FOR_EVER
from disttest_contract.gang.suites import BUILTIN, SUMMARIES
from disttest_operator.core.api.model import Backend, DistTest

MINE = Path("tests/test_mine.py")

FORBIDDEN = {
    "nothing": (RunRequest(), "nothing to run. Use --suite NAME, a PATH with test files, or -f FILE"),
    "file and path": (RunRequest(filename="f", paths=(MINE,)), "-f and PATH exclude each other"),
    "file and ranks": (RunRequest(filename="f", ranks=2), "--ranks requires --suite or PATH"),
    "file and nodes": (RunRequest(filename="f", nodes=2), "--nodes requires --suite or PATH"),
    "file and backend": (RunRequest(filename="f", backend="gloo"), "--backend requires --suite or PATH"),
    "files without file": (
        RunRequest(suites=("a",), files=("a=b",)),
        "--files replaces ConfigMaps of a file and requires -f",
    ),
    "case as path": (
        RunRequest(paths=(Path("tests/test_mine.py::test_a[x::y]"),)),
        "Write tests/test_mine.py --case test_mine.py::test_a[x::y]",
    ),
    "timeouts": (RunRequest(suites=("a",), timeout=5, case_timeout=6), "--case-timeout 6 is longer than --timeout 5"),
    "case and select": (RunRequest(suites=("a",), cases=("c",), select="d"), "--case and --select exclude each other"),
    "until and keep": (
        RunRequest(suites=("a",), until_fail=True, keep_going=True),
        "--until-fail and --keep-going exclude each other",
    ),
}
ALLOWED = {
    "file": RunRequest(filename="f", suites=("a",), select="b", files=("a=b",), keep_going=True),
    "suites": RunRequest(suites=("a", "b"), ranks=4, nodes=2, backend="gloo", select="x", repeat=3, keep_going=True),
    "path and suite": RunRequest(paths=(MINE,), suites=("a",)),
    "hunt": RunRequest(suites=("a",), cases=("c", "d"), until_fail=True, repeat=50),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_options_that_exclude_each_other_are_one_sentence(name: str) -> None:
    request, words = FORBIDDEN[name]
    said = run_request.problem(request)
    assert words in said
    assert name == "nothing" or "\n" not in said


@pytest.mark.parametrize("name", ALLOWED)
def test_options_that_go_together(name: str) -> None:
    assert run_request.problem(ALLOWED[name]) == ""


def test_without_arguments_the_options_are_named_and_help_lists_each_suite() -> None:
    said, listing = run_request.problem(RunRequest()), run_request.listing()
    assert SUMMARIES.keys() == BUILTIN.keys()
    assert "\n" not in said
    assert all(name in said for name in BUILTIN)
    assert [line.split()[0] for line in listing.splitlines()] == sorted(BUILTIN)
    assert all(len(line) <= 100 for line in listing.splitlines())


@pytest.mark.parametrize(
    ("request_", "times"),
    [
        (RunRequest(), 1),
        (RunRequest(repeat=7), 7),
        (RunRequest(until_fail=True), FOR_EVER),
        (RunRequest(until_fail=True, repeat=7), 7),
        (RunRequest(until_fail=True, repeat=1), 1),
    ],
)
def test_how_often_cases_run(request_: RunRequest, times: int) -> None:
    assert request_.times == times


@pytest.mark.parametrize(
    ("request_", "names", "words"),
    [
        (RunRequest(cases=("c",)), ["a"], ""),
        (RunRequest(until_fail=True), ["a"], ""),
        (RunRequest(repeat=3), ["a", "b"], ""),
        (
            RunRequest(cases=("c",)),
            ["a", "b"],
            "--case selects cases of one suite, but there are 2 (a, b). Use --suite NAME.",
        ),
        (RunRequest(until_fail=True), list("abcdef"), "of one suite, but there are 6 (a, b, c, d, …)"),
    ],
)
def test_what_is_for_one_suite(request_: RunRequest, names: list[str], words: str) -> None:
    said = run_request.of_one_suite(request_, names)
    assert (words in said) if words else (said == "")


NCCL, GLOO = Backend.NCCL, Backend.GLOO
SHAPES = {
    "no GPU": (RunRequest(), 0, (GLOO, 1, 2, "this machine has no GPU")),
    "no GPU, ranks": (RunRequest(ranks=4), 0, (GLOO, 1, 4, "this machine has no GPU")),
    "no GPU, nodes": (RunRequest(nodes=4), 0, (GLOO, 4, 4, "this machine has no GPU")),
    "no GPU, nodes and ranks": (RunRequest(nodes=2, ranks=6), 0, (GLOO, 2, 6, "this machine has no GPU")),
    "all GPUs": (RunRequest(), 8, (NCCL, 1, 8, "this machine has 8 GPUs")),
    "one GPU": (RunRequest(), 1, (NCCL, 1, 1, "this machine has 1 GPU")),
    "some GPUs": (RunRequest(ranks=4), 8, (NCCL, 1, 4, "this machine has 8 GPUs")),
    "GPUs asked for": (RunRequest(backend="nccl", ranks=2, nodes=1), 2, (NCCL, 1, 2, "this machine has 2 GPUs")),
    "CPU asked for": (RunRequest(backend="gloo"), 8, (GLOO, 1, 2, "--backend gloo")),
    "CPU asked for, more ranks": (RunRequest(backend="gloo", ranks=16, nodes=2), 8, (GLOO, 2, 16, "--backend gloo")),
}


@pytest.mark.parametrize("name", SHAPES)
def test_gpus_are_taken_where_there_are_some_and_it_is_said_why(name: str) -> None:
    request, gpus, expected = SHAPES[name]
    shape = run_request.shape(request, gpus)
    assert (shape.backend, shape.nodes, shape.ranks, shape.why) == expected


def test_what_was_taken_is_one_line() -> None:
    assert run_request.shape(RunRequest(), 0).described() == "2 ranks on the CPU with gloo: this machine has no GPU"
    assert run_request.shape(RunRequest(), 1).described() == "1 rank on GPUs with NCCL: this machine has 1 GPU"
    of_two = run_request.shape(RunRequest(nodes=2, ranks=4, backend="gloo"), 1)
    assert of_two.described() == "4 ranks on 2 nodes on the CPU with gloo: --backend gloo"


@pytest.mark.parametrize(
    ("request_", "gpus", "words"),
    [
        (
            RunRequest(ranks=4),
            2,
            "NCCL needs one GPU per rank (4 ranks), but this machine has 2 GPUs. Use --ranks 2, or --backend gloo",
        ),
        (
            RunRequest(backend="nccl"),
            0,
            "NCCL needs one GPU per rank (all ranks), but this machine has no GPU. Use --backend gloo",
        ),
        (
            RunRequest(nodes=2),
            8,
            "--nodes 2 requires gloo, because nodes cannot share GPUs. Add --backend gloo",
        ),
        (RunRequest(nodes=2, backend="nccl"), 0, "--nodes 2 requires gloo"),
        (RunRequest(nodes=2, ranks=3), 0, "--ranks 3 is not a multiple of --nodes 2. Use a multiple of 2"),
    ],
)
def test_too_few_gpus_are_an_error_that_names_both_ways_out(request_: RunRequest, gpus: int, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_request.shape(request_, gpus)
    assert words in str(caught.value)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("tests/test_one.py", "tests/test_two.py", "Other Tests/test_one.py", "2nd/collectives.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    return tmp_path


def make(request: RunRequest, gpus: int = 0) -> tuple[DistTest, dict[str, Folder]]:
    return run_request.make_test(request, run_request.shape(request, gpus))


def paths(tree: Path, *names: str) -> tuple[Path, ...]:
    return tuple(tree / name for name in names)


def test_suites_are_a_test_of_their_own_that_the_api_server_would_take() -> None:
    test, _ = make(RunRequest(suites=("collectives", "collectives", "data-parallel"), ranks=4), gpus=4)
    spec = test.spec
    assert (test.name, [suite.builtin for suite in spec.suites]) == ("local", ["collectives", "data-parallel"])
    assert (spec.nodes, spec.gpus_per_node, spec.ranks_per_node, spec.backend) == (1, 4, 4, NCCL)
    assert make(RunRequest(suites=("collectives",)))[0].name == "collectives"


@pytest.mark.parametrize(
    ("names", "suites"),
    [
        (["tests/test_one.py"], {"test-one": Folder(Path("tests"), ("test_one.py",))}),
        (["tests/test_one.py"] * 2, {"test-one": Folder(Path("tests"), ("test_one.py",))}),
        (["tests"], {"tests": Folder(Path("tests"))}),
        (["tests", "tests/test_one.py"], {"tests": Folder(Path("tests"))}),
        (
            ["tests/test_two.py", "tests/test_one.py"],
            {"tests": Folder(Path("tests"), ("test_two.py", "test_one.py"))},
        ),
        (
            ["tests/test_one.py", "Other Tests/test_one.py"],
            {
                "test-one": Folder(Path("tests"), ("test_one.py",)),
                "test-one-2": Folder(Path("Other Tests"), ("test_one.py",)),
            },
        ),
        (["2nd"], {"suite-2nd": Folder(Path("2nd"))}),
        (["2nd/collectives.py"], {"collectives-2": Folder(Path("2nd"), ("collectives.py",))}),
    ],
)
def test_paths_are_suites_by_folder(tree: Path, names: list[str], suites: dict[str, Folder]) -> None:
    test, folders = make(RunRequest(paths=paths(tree, *names)))
    assert folders == {
        name: Folder(tree / folder.path, folder.files, in_repository=True) for name, folder in suites.items()
    }
    assert [suite.name for suite in test.spec.suites] == list(suites)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (RunRequest(suites=("colectives",)), "suite 'colectives' is unknown. Known suites: c10d-spawn, collectives, "),
        (RunRequest(paths=(Path("no/where.py"),)), "no/where.py does not exist. Give a test file, or a folder"),
    ],
)
def test_what_cannot_be_run_is_said(request_: RunRequest, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(request_)
    assert words in str(caught.value)


def test_the_plan_of_a_path_has_its_folder_and_its_files(tree: Path) -> None:
    request = RunRequest(paths=paths(tree, "tests/test_one.py"), cases=("test_one.py::test_a",), until_fail=True)
    test, folders = make(request)
    plan = local_plans.make(test, LocalPlaces(folders=folders), request)
    [suite] = plan.suites
    assert (suite.directory, suite.files, suite.cases) == (str(tree / "tests"), ("test_one.py",), request.cases)
    assert (plan.repeat, plan.until_fail, plan.run_seconds) == (FOR_EVER, True, NO_END_SECONDS)
    limited = replace(request, timeout=60)
    assert local_plans.make(test, LocalPlaces(folders=folders), limited).run_seconds == 60


@pytest.mark.parametrize(
    ("request_", "case_seconds", "run_seconds"),
    [
        (RunRequest(suites=("collectives",)), 60, 7200),
        (RunRequest(suites=("collectives", "replicate-compile")), 300, 7200),
        (RunRequest(suites=("replicate-compile",), case_timeout=20), 20, 7200),
        (RunRequest(suites=("collectives",), case_timeout=9000), 9000, 9000),
        (RunRequest(suites=("collectives",), timeout=40), 60, 40),
    ],
)
def test_timeouts_suit_a_laptop_unless_others_are_given(
    request_: RunRequest, case_seconds: int, run_seconds: int
) -> None:
    plan = local_plans.make(make(request_)[0], LocalPlaces(), request_)
    assert (plan.case_seconds, plan.run_seconds) == (case_seconds, run_seconds)


def test_the_timeouts_of_a_file_hold_unless_others_are_given(documents: manifests.Documents) -> None:
    [one, _] = documents.tests
    request = RunRequest(filename="f", suites=("fast",))
    plan = local_plans.make(one, LocalPlaces(), request)
    assert (plan.case_seconds, plan.run_seconds) == (one.spec.timeouts.case_seconds, one.spec.timeouts.run_seconds)
    assert local_plans.make(one, LocalPlaces(), replace(request, case_timeout=7)).case_seconds == 7


SPEC = {
    "nodes": 2,
    "gpusPerNode": 0,
    "transport": "tcp",
    "suites": [{"name": "fast", "builtin": "collectives", "select": "bandwidth"}, {"name": "fsdp-exec-order"}],
    "thresholds": [{"collective": "all_reduce", "sizeBytes": 8, "minBusBandwidthBytesPerSecond": 1}],
}


@pytest.fixture
def documents(tmp_path: Path) -> manifests.Documents:
    bodies = [
        {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": {"name": name}, "spec": spec}
        for name, spec in (("one", SPEC), ("two", {"gpusPerNode": 0, "suites": [{"name": "fsdp-exec-order"}]}))
    ]
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    return manifests.read(str(file))


def test_suites_of_a_file_can_be_chosen_and_thresholds_go_with_the_suite_that_measures(
    documents: manifests.Documents,
) -> None:
    request = RunRequest(filename="f", suites=("fsdp-exec-order",))
    tests = local_plans.of_file(documents, request)
    assert [test.name for test in tests] == ["one", "two"]
    plan = local_plans.make(tests[0], LocalPlaces(), request)
    assert ([suite.name for suite in plan.suites], plan.thresholds) == (["fsdp-exec-order"], ())
    assert (tests[0].spec.transport, plan.transport) == ("tcp", "any"), "all ranks are on one machine"
    request = RunRequest(filename="f", suites=("fast",), select="all_reduce")
    [one] = local_plans.of_file(documents, request)
    plan = local_plans.make(one, LocalPlaces(), request)
    assert plan.suites[0].select == "(bandwidth) and (all_reduce)"
    assert len(plan.thresholds) == 1
    request = RunRequest(filename="f", suites=("fast",), cases=("x",))
    assert local_plans.make(one, LocalPlaces(), request).suites[0].select == "", "an id needs no selection"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (RunRequest(filename="f", suites=("slow",)), "f has no suite 'slow'. Its suites: fast, fsdp-exec-order"),
        (RunRequest(filename="f", suites=("fsdp-exec-order",), until_fail=True), "only the first of 2 DistTests of f"),
        (RunRequest(filename="f", cases=("x",)), "one: --case selects cases of one suite, but there are 2"),
        (RunRequest(filename="f", until_fail=True, repeat=2), "one: --until-fail repeats cases of one suite"),
    ],
)
def test_what_a_file_cannot_do(documents: manifests.Documents, request_: RunRequest, words: str) -> None:
    def plans() -> None:
        for test in local_plans.of_file(documents, request_):
            local_plans.make(test, LocalPlaces(), request_)

    with pytest.raises(UsageError) as caught:
        plans()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "gpus", "words"),
    [
        ({"nodes": 2}, 0, "NCCL needs one GPU per rank (8 ranks), but this machine has 0"),
        ({"nodes": 2}, 8, "2 nodes cannot share the GPUs of this machine"),
        ({"nodes": 1}, 8, ""),
        ({"nodes": 2, "backend": Backend.GLOO}, 0, ""),
    ],
)
def test_a_file_for_gpus_needs_one_node_with_a_gpu_for_each_rank(
    documents: manifests.Documents, changes: dict[str, Any], gpus: int, words: str
) -> None:
    one = local_plans.of_file(documents, RunRequest(filename="f"))[0]
    spec = replace(one.spec, **{"backend": Backend.NCCL, "ranks_per_node": 8, **changes})
    problem = local_plans.gpu_problem(replace(one, spec=spec), gpus)
    assert words in problem
    assert bool(problem) is bool(words)
