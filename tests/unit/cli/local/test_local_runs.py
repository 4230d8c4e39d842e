"""What `disttest run` shows of agents and ranks, and of the report."""

import contextlib
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from disttest_cli.errors import UsageError
from disttest_cli.local import local_plans, local_runs, run_request
from disttest_cli.local.local_runs import LAST_LINES, AgentLines, LocalTest
from disttest_cli.local.run_request import RunRequest
from disttest_cli.views.live import GangShape, LiveView
from tests.support.reports import hostile, reports

LINES = ("[1/2] passed     0.01 s  mine: t.py::test_a", "[rank 0] \x1b[2Jhello", "warning: \x07of the node")


def a_console(*, is_terminal: bool) -> Console:
    return Console(file=io.StringIO(), width=200, force_terminal=is_terminal, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("shows_all", "shown"),
    [
        (False, ["warning: \\x07of the node"]),
        (True, [LINES[0], "[rank 0] \\x1b[2Jhello", "warning: \\x07of the node"]),
    ],
)
def test_beside_a_bar_only_warnings_are_shown_unless_all_is_wanted(*, shows_all: bool, shown: list[str]) -> None:
    console = a_console(is_terminal=True)
    lines = AgentLines(LiveView(console, GangShape(nodes=1, ranks_per_node=2, suites=1)), shows_all=shows_all)
    for line in LINES:
        lines.take(line)
    assert written(console).splitlines() == shown


def test_the_last_lines_are_there_for_a_run_without_a_report() -> None:
    lines = AgentLines(
        LiveView(a_console(is_terminal=True), GangShape(nodes=1, ranks_per_node=2, suites=1)), shows_all=False
    )
    for number in range(2 * LAST_LINES):
        lines.take(f"line {number}")
    assert list(lines.last) == [f"line {number}" for number in range(LAST_LINES, 2 * LAST_LINES)]


@pytest.fixture
def one(tmp_path: Path) -> LocalTest:
    request = RunRequest(suites=("collectives",))
    test, _ = run_request.make_test(request, run_request.shape(request, 0))
    plan = local_plans.make(test, local_plans.LocalPlaces(), request)
    return LocalTest(test=test, plan=plan, report=tmp_path / "a report.json")


@pytest.mark.parametrize(
    ("changes", "visible"),
    [
        ({"gpus_per_node": 0}, ""),
        ({"gpus_per_node": 0, "env": (("CUDA_VISIBLE_DEVICES", "1"),)}, "1"),
        ({"gpus_per_node": 2}, "0,1"),
    ],
    ids=repr,
)
def test_ranks_on_the_cpu_see_no_gpu_of_this_machine(one: LocalTest, changes: dict[str, Any], visible: str) -> None:
    spec = dataclasses.replace(one.test.spec, **changes)
    assert local_runs.environ_of(spec, {"CUDA_VISIBLE_DEVICES": "0,1"}) == {"CUDA_VISIBLE_DEVICES": visible}


def test_options_of_the_shell_s_own_pytest_are_not_those_of_ranks(one: LocalTest) -> None:
    environ = {"PYTEST_ADDOPTS": "-v --color=yes"}
    assert "PYTEST_ADDOPTS" not in local_runs.environ_of(one.test.spec, environ)
    spec = dataclasses.replace(one.test.spec, env=(("PYTEST_ADDOPTS", "-m fast"),))
    assert local_runs.environ_of(spec, environ)["PYTEST_ADDOPTS"] == "-m fast"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_forged_report_does_not_steer_who_reads_it(one: LocalTest, *, is_terminal: bool) -> None:
    console = a_console(is_terminal=is_terminal)
    local_runs.show_report(console, hostile.a_hostile_subject().report, one)
    text = written(console)
    assert "\\x1b[2J" in text
    assert not [character for character in text.replace("\n", "") if not character.isprintable()]


def test_a_terminal_shows_how_to_make_a_page_and_where_the_output_is(one: LocalTest) -> None:
    bad, good = reports.a_night(), reports.a_good_night()
    last = {}
    for name, report, is_terminal in (("bad", bad, True), ("good", good, True), ("piped", bad, False)):
        console = a_console(is_terminal=is_terminal)
        local_runs.show_report(console, report, one)
        last[name] = written(console).splitlines()[-2:]
    page = f"HTML page: disttest report -f '{one.report}' -o html=report.html"
    assert last["bad"] == [page, "output of ranks: run again with --verbose"]
    assert last["good"][1] == page
    assert last["piped"][1] == f"report: {one.report}"
    assert one.report.exists()


@pytest.mark.parametrize(("found", "is_overwritten"), [({"schema": 1, "suites": []}, True), ({"schema": 1}, False)])
def test_a_report_of_an_older_version_is_overwritten_and_another_file_is_not(
    one: LocalTest, found: dict[str, Any], *, is_overwritten: bool
) -> None:
    path = one.report
    path.write_text(json.dumps(found))
    refusal = contextlib.nullcontext() if is_overwritten else pytest.raises(UsageError, match="is not a report")
    with refusal:
        assert local_runs.report_path(path, one.test) == path
