"""Faults of test files: no case of them can run, the next suite does."""

from pathlib import Path

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.results.report import Report
from tests.integration.runner.faults.fault import After, Fault, FaultResult, word
from tests.support.gangs.gang import suite_of

SECONDS = 15.0  # imports included

FILES = (
    Fault(
        name="an import error on one rank",
        source="import os\nif os.environ['RANK'] == '2':\n    import no_such_module\ndef test_a(): pass\n",
        outcome="Errored CollectionFailed",
        words=("collecting failed on rank 2 on local-1", "No module named 'no_such_module'"),
        limit_seconds=SECONDS, after=After.NEXT_SUITE,
    ),
    Fault(
        name="ranks collect different cases",
        source=(
            "import os, pytest\n"
            "@pytest.mark.parametrize('one', [1, 2] if os.environ['RANK'] != '3' else [1, 3])\n"
            "def test_a(one): pass\n"
        ),
        outcome="Errored CollectionDiffers",
        words=("collected different cases than rank 0", "without test_it.py::test_a[2]; with test_it"),
        limit_seconds=SECONDS, after=After.NEXT_SUITE,
    ),
    Fault(
        name="a rank dies during collection",
        source="import os\nif os.environ['RANK'] == '1':\n    os._exit(9)\ndef test_a(): pass\n",
        outcome="Errored CollectionFailed", words=("rank 1 on local-0 exited with code 9 while collecting",),
        limit_seconds=SECONDS, after=After.NEXT_SUITE,
    ),
)  # fmt: skip  # a row reads as a sentence


def suites(folder: Path) -> list[SuitePlan]:
    """Each followed by one that is well."""
    broken = [suite_of(folder / f"file-{n}", fault.source, name=f"file-{n}") for n, fault in enumerate(FILES)]
    good = "def test_good(gang, process_group): assert gang.world_size == 4\n"
    return [one for pair in broken for one in (pair, suite_of(folder / "good", good, name="good"))]


def read(report: Report) -> dict[str, FaultResult]:
    found = {}
    for place, result in enumerate(report.suites):
        if not result.name.startswith("file-"):
            continue
        following = report.suites[place + 1]
        after = After.NEXT_SUITE if following.verdict == "Passed" else f"the next suite is {following.verdict}"
        found[FILES[int(result.name.removeprefix("file-"))].name] = FaultResult(
            outcome=word(result), message=result.message, seconds=result.seconds, after=after
        )
    return found
