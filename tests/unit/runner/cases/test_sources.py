"""Which files a suite has, how they are imported, what a zygote may import for them, and which torch they are for."""

import json
from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.report import SuiteResult
from disttest_runner.cases import preload, sources
from disttest_runner.cases.rank_orders import RankOrder

COMMIT = "b7d1a8f3c2e94d5f60718293a4b5c6d7e8f90a1b"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a/test_one.py", "a/test_two.py", "b/test_one.py", "b/data.txt", "b/__init__.py"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["a/*.py"], ["a/test_one.py", "a/test_two.py"]),
        (["a/test_two.py", "a/*.py"], ["a/test_two.py", "a/test_one.py"]),
        (["**/test_one.py"], ["a/test_one.py", "b/test_one.py"]),
    ],
)
def test_patterns_find_files_in_their_order_and_each_once(tree: Path, patterns: list[str], found: list[str]) -> None:
    assert sources.find(tree, patterns) == [tree / name for name in found]


def test_a_pattern_that_finds_nothing_is_an_error(tree: Path) -> None:
    with pytest.raises(sources.SourceError, match=r"'c/\*\.py'"):
        sources.find(tree, ["a/*.py", "c/*.py"])


def test_files_of_one_name_are_imported_apart(tree: Path) -> None:
    assert sources.import_mode([tree / "a/test_one.py", tree / "a/test_two.py"]) == "prepend"
    assert sources.import_mode([tree / "a/test_one.py", tree / "b/test_one.py"]) == "prepend", "b is a package"
    (tree / "b/__init__.py").unlink()
    assert sources.import_mode([tree / "a/test_one.py", tree / "b/test_one.py"]) == "importlib"


def test_ids_are_relative_to_the_root_and_cases_are_selected(tree: Path) -> None:
    arguments = sources.pytest_arguments(
        SuitePlan(name="x", root=str(tree), files=("a/test_one.py",), select="not gloo")
    )
    assert f"--rootdir={tree}" in arguments
    assert arguments[arguments.index("-k") + 1] == "not gloo"
    assert arguments[-1] == str(tree / "a/test_one.py")


def test_an_order_survives_the_wire() -> None:
    words = ("backend", "store_host")
    suite = SuitePlan(name="x", files=("a", "b"), root="/r", select="y", cases=("a::b",), in_repository=True)
    numbers = dict.fromkeys(set(RankOrder.__slots__) - {*words, "suite"}, 1)
    sent = RankOrder(**numbers, **dict.fromkeys(words, "w"), suite=suite)  # type: ignore[arg-type]  # of many types
    assert RankOrder.from_json(json.loads(json.dumps(sent.to_json()))) == sent


def test_a_zygote_imports_what_files_name_and_nothing_that_asks_the_driver(tree: Path) -> None:
    (tree / "a/test_one.py").write_text(
        "import torch\n"
        "from torch.testing._internal.common_device_type import instantiate_device_type_tests\n"
        "from torch.testing._internal.common_fsdp import FSDPTest\n"
        "    import torch.distributed.tensor.parallel\n"
        "# from torch.distributed.pipelining import Schedule\n"
    )
    suite = SuitePlan(name="x", root=str(tree), files=("a/test_one.py",))
    expected = ("torch.testing._internal.common_fsdp", "torch.distributed.tensor")
    assert preload.modules_of_suite(suite) == expected


def test_files_that_are_not_there_are_the_ranks_to_report(tree: Path) -> None:
    assert preload.modules_of_suite(SuitePlan(name="x", root=str(tree), files=("none.py",))) == ()


def test_a_tree_tells_its_revision_by_git_or_by_its_version(tree: Path) -> None:
    assert sources.tree_revision(tree) == ""
    (tree / "version.txt").write_text("2.13.0a0\n")
    assert sources.tree_revision(tree) == "2.13.0a0"
    (tree / ".git/refs/heads").mkdir(parents=True)
    (tree / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tree / ".git/refs/heads/main").write_text(f"{COMMIT}\n")
    assert sources.tree_revision(tree) == COMMIT


def test_a_suite_says_that_its_files_are_of_another_torch(tree: Path) -> None:
    (tree / "version.txt").write_text("2.7.0")
    result = SuiteResult(
        name="x", verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, message="all", seconds=1, cases=()
    )
    versions = {"torch": "2.13.0+cu130", "torch_git": COMMIT}
    of_tree = SuitePlan(name="x", root=str(tree), files=("a/*.py",))
    assert sources.warned(result, of_tree, versions).message.startswith(
        "all; the test files are for torch 2.7.0, but torch"
    )
    assert sources.warned(result, SuitePlan(name="x", directory=str(tree)), versions) == result


@pytest.mark.parametrize(
    ("revision", "fits"),
    [
        ("", True),
        (COMMIT, True),
        (COMMIT[:8], True),
        ("0" * 40, False),
        ("2.13.0a0", True),
        ("2.13.1", True),
        ("2.7.0", False),
    ],
)
def test_files_of_another_torch_are_warned_about(revision: str, fits: bool) -> None:  # noqa: FBT001 - a column of the table
    warning = sources.mismatch(revision, torch="2.13.0+cu130", git=COMMIT)
    assert (warning == "") is fits
    assert revision in warning or fits
