"""The built-in suites notice broken communication: with it sabotaged, every case that communicates goes red.

A suite is run as a user's folder whose conftest breaks the kernels of torch's collectives; the product knows nothing
of it. What is listed in here as silent must stay green, and everything else must not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_contract.outcomes import BAD, Outcome, Verdict
from disttest_contract.results.report import CaseResult
from tests.support.gangs import stub_device
from tests.support.gangs.gang import AgentGang, make_plan
from tests.support.gangs.sabotage import Sabotage
from tests.support.gangs.sabotaged import can_sabotage, sabotage_folder

pytestmark = can_sabotage

SABOTAGES = [sabotage for sabotage in Sabotage if sabotage is not Sabotage.NONE]
SAMPLE = "float32-1031 and (all_reduce or broadcast or scatter) or test_barrier"
RUN_SECONDS = 2400  # against hanging for ever; two cores that do nothing else need a few minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRow:
    """A suite in the table. Words are parts of case ids."""

    modules: tuple[str, ...]  # of disttest_runner.suites
    select: str = ""  # pytest's -k: cases that stand for others which differ in a parameter only
    compiles: bool = False  # compiled code reads memory without torch's dispatcher
    prepared_by: str = ""  # -k that finds a cheap case of the built-in suite: its gang imports what the suite needs
    takes_minutes: bool = False  # or a good part of one
    silent: Mapping[str, str] = field(default_factory=dict)  # words -> why these cases do not communicate
    silent_under: Mapping[tuple[Sabotage, str], str] = field(default_factory=dict)

    def why_silent(self, sabotage: Sabotage, case_id: str) -> str:
        silent = {**self.silent, **{words: why for (kind, words), why in self.silent_under.items() if kind is sabotage}}
        return next((why for words, why in silent.items() if words in case_id), "")


TABLE = {
    "collectives": SuiteRow(
        modules=("collectives.correctness", "collectives.bandwidth"),
        # other types and sizes pass the same kernels
        select="float32-1031 or float32-4KiB or not (test_every_element or test_bandwidth)",
        silent_under={(Sabotage.SCALED, "test_barrier"): "a barrier carries no value"},
    ),
    "fully-shard-autograd": SuiteRow(modules=("fully_shard_autograd",), prepared_by="list", takes_minutes=True),
    "pipeline-schedules": SuiteRow(
        modules=("pipeline_schedules",),
        # one schedule of each kind; a plan stands for all of them
        select="GPipe and not (traced and uneven) or Interleaved1F1B-2x2x2 or two_stages and ZeroBubble or along_a_v "
        "or ones_own or computes_later",
        prepared_by="keyword and GPipe",
        takes_minutes=True,
        silent={"test_plan": "rank 0 alone looks at plans"},
    ),
    "data-parallel": SuiteRow(
        modules=("data_parallel",),
        # one optimizer, and one case of what is compiled: compiling takes longer than everything else
        select="sgd and eager or dim and eager or sgd and dtensor_replicate and forward",
        prepared_by="sgd and replicate-sgd-eager and not dtensor",
        compiles=True,
        takes_minutes=True,
    ),
    "replicate-compile": SuiteRow(
        modules=("replicate_compile",),
        # a hook, accumulation, and inductor's fused buckets; the others differ in what is compiled, which takes seconds
        select="no_sync or bf16_hook or coalesced",
        prepared_by="backward_only",
        compiles=True,
        takes_minutes=True,
    ),
}


def folder_of(place: Path, row: SuiteRow, sabotage: Sabotage, backend: str) -> Path:
    place.mkdir()
    for module in row.modules:
        name = module.replace(".", "_")
        (place / f"test_{name}.py").write_text(f"from disttest_runner.suites.{module} import *\n")
    sabotage_folder(place, sabotage, settles=stub_device.__name__ if backend == stub_device.BACKEND else "")
    return place


@dataclass(frozen=True, slots=True)
class SabotagedSuite:
    """What became of one suite under all sabotages."""

    row: SuiteRow
    cases: Mapping[Sabotage, tuple[CaseResult, ...]]


@pytest.fixture(scope="module")
def column(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SabotagedSuite:
    """One gang for all sabotages of a suite: modules are imported once, by a case of the suite itself."""
    name, backend, select = request.param
    folder, row = tmp_path_factory.mktemp("sabotage"), TABLE[name]
    suites = [SuitePlan(name="prepare", builtin=name, select=row.prepared_by)] if row.prepared_by else []
    for sabotage in Sabotage:
        place = folder_of(folder / sabotage.value, row, sabotage, backend)
        suites.append(SuitePlan(name=sabotage.value, directory=str(place), select=select))
    plan = make_plan(*suites, nodes=1, ranks=2, case_seconds=150, run_seconds=RUN_SECONDS, backend=backend)
    waits = {stub_device.WAITS: "1"} if row.compiles else {}
    environ = stub_device.environment(folder / "hooks", **waits) if backend == stub_device.BACKEND else {}
    gang = AgentGang(plan, folder, environ=environ)
    found = {suite.name: suite for suite in gang.run(seconds=RUN_SECONDS).suites}
    assert "prepare" not in found or found["prepare"].verdict is Verdict.PASSED, gang.text
    return SabotagedSuite(row, {sabotage: found[sabotage.value].cases for sabotage in Sabotage})


def columns() -> Iterator[object]:
    """Each suite over gloo, and over an asynchronous stub, where a call returns before its work is done."""
    for name, row in TABLE.items():
        marks = [pytest.mark.soak] if row.takes_minutes else []
        yield pytest.param((name, "gloo", row.select), marks=marks, id=name)
        yield pytest.param((name, stub_device.BACKEND, row.select), marks=[pytest.mark.soak], id=f"{name}-stub")
    yield pytest.param(("collectives", stub_device.BACKEND, SAMPLE), id="collectives-stub-sample")


in_every_suite = pytest.mark.parametrize("column", list(columns()), indirect=True)


@pytest.mark.parametrize("sabotage", SABOTAGES)
@in_every_suite
def test_every_communicating_case_goes_red_and_no_other(column: SabotagedSuite, sabotage: Sabotage) -> None:
    outcomes = {case.id: case.outcome for case in column.cases[Sabotage.NONE]}
    wrong = []
    for case in column.cases[sabotage]:
        if outcomes[case.id] is not Outcome.PASSED:  # what gloo or torch cannot do needs no sabotage to go wrong
            print(f"-     {case.outcome:<8} {case.id}: without sabotage {outcomes[case.id]}")
            assert case.outcome is not Outcome.PASSED
            continue
        why, is_red = column.row.why_silent(sabotage, case.id), case.outcome in BAD
        print(f"{'red  ' if is_red else 'green'} {case.outcome:<8} {case.id} {why}")
        if is_red == bool(why):
            wrong.append(f"{case.id} {case.outcome}: {case.message}")
    assert len(column.cases[sabotage]) == len(outcomes)
    assert not wrong, f"{len(wrong)} of {len(outcomes)} cases"


@in_every_suite
def test_the_same_folder_without_sabotage_is_green(column: SabotagedSuite) -> None:
    """Else everything above could be red for another reason."""
    without = column.cases[Sabotage.NONE]
    assert [case for case in without if case.outcome in BAD] == []
    assert any(case.outcome is Outcome.PASSED for case in without)


@in_every_suite
def test_what_is_called_silent_is_there(column: SabotagedSuite) -> None:
    ids = [case.id for case in column.cases[Sabotage.NONE]]
    for words in (*column.row.silent, *(words for _, words in column.row.silent_under)):
        assert any(words in one for one in ids), f"no case is called {words!r} any more"
