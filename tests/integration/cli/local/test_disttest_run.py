"""`disttest run`: a DistTest without a cluster, from its YAML to exit code, table and report."""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.gangs.gang import MARK, marked, wait_for

HEAD = "apiVersion: disttest.dev/v1alpha1\nkind: DistTest\nmetadata: {{name: {name}}}\nspec:\n"
SPEC = "  nodes: 2\n  gpusPerNode: 0\n  ranksPerNode: 1\n  suites: [{{name: mine, configMap: {{name: files}}}}]\n"
MINE = (HEAD + SPEC).format(name="mine")
FILES = MINE.replace("configMap: {name: files}", "files: [test/*.py]")
LONG = ", ".join(f"{{name: V{number}, value: {'x' * 4096}}}" for number in range(31))

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Every process of a run can be found by its mark."""
    return {**os.environ, MARK: secrets.token_hex(8), "HOME": str(tmp_path)}


@pytest.fixture
def start(tmp_path: Path, environ: dict[str, str]) -> Start:
    """Start `disttest run -f F` in a separate folder, with the YAML as F."""

    def _start(text: str, *arguments: str) -> subprocess.Popen[str]:
        (tmp_path / "test.yaml").write_text(text)
        return subprocess.Popen(
            [sys.executable, "-m", "disttest_cli.main", "run", "-f", "test.yaml", *arguments],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    return _start


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=patience.stretched(120))
    return process.returncode, output


def files(tmp_path: Path, source: str) -> str:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "test_it.py").write_text(source)
    return f"--files=files={folder}"


def test_a_green_run_ends_with_a_table_a_report_and_0(start: Start, tmp_path: Path) -> None:
    source = "def test_a(gang, process_group): assert gang.world_size == 2\ndef test_b(): pass\n"
    code, output = finish(start(MINE, files(tmp_path, source)))
    assert code == 0, output
    assert "[1/2] passed" in output
    assert "SUITE  VERDICT  CASES  PASSED" in output
    assert "Passed (AllCasesPassed): 2 of 2 cases passed in 1 suite" in output
    assert "DISTTEST-REPORT" not in output
    report = Report.loads((tmp_path / "disttest-report-mine.json").read_bytes())
    assert (report.verdict, report.counts.total) == (Verdict.PASSED, 2)


FAST = (
    "  suites: [{name: collectives, select: test_bandwidth and all_reduce}]\n"
    "  env: [{name: COLLECTIVES_SIZES, value: '8'}]\n"
    "  thresholds: [{collective: all_reduce, sizeBytes: 8, minBusBandwidthBytesPerSecond: 1}]\n"
)


def test_thresholds_that_are_met_stand_in_the_table_of_a_green_run(start: Start) -> None:
    cpu = "  nodes: 1\n  gpusPerNode: 0\n"
    code, output = finish(start(HEAD.format(name="fast") + cpu + FAST))
    assert code == 0, output
    head, row = output.partition("BANDWIDTH")[2].splitlines()[:2]
    assert "THRESHOLD" in head
    assert "1 B/s" in row
    assert "missed" not in output
    alone = "  nodes: 1\n  gpusPerNode: 0\n  ranksPerNode: 1\n"
    code, output = finish(start(HEAD.format(name="fast") + alone + FAST))
    assert (code, "bandwidth requires at least 2 ranks" in output) == (2, True), output


@pytest.mark.soak
def test_a_run_leaves_no_temporary_files(start: Start, tmp_path: Path, environ: dict[str, str]) -> None:
    """Those that its ranks make, and forget when they are killed, are gone too."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ |= {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    compiles = "os.makedirs(os.path.join(os.environ['TORCHINDUCTOR_CACHE_DIR'], 'code'), exist_ok=True)"
    source = f"import os, tempfile\n\ndef test_crash():\n    tempfile.mkdtemp()\n    {compiles}\n    os._exit(3)\n"
    code, output = finish(start(MINE, files(tmp_path, source)))
    assert code == 10, output
    assert list(temporary.iterdir()) == []
    assert (tmp_path / "cache" / "disttest" / "inductor" / "code").is_dir()


TWO = MINE + "---\n" + (HEAD + SPEC).format(name="again")


def test_a_red_run_ends_with_10_and_those_behind_it_run_if_that_is_wanted(start: Start, tmp_path: Path) -> None:
    source = "def test_a(gang): assert gang.rank != 1, 'one is odd'\n"
    code, output = finish(start(TWO, files(tmp_path, source), "--keep-going"))
    assert code == 10, output
    assert output.index("default/mine") < output.index("default/again")
    assert "mine: test_it.py::test_a: failed after" in output
    assert "AssertionError: one is odd" in output
    for name in ("mine", "again"):
        assert Report.loads((tmp_path / f"disttest-report-{name}.json").read_bytes()).name == name


def test_a_red_run_is_the_last_otherwise(start: Start, tmp_path: Path) -> None:
    code, output = finish(start(TWO, files(tmp_path, "def test_a(): assert False\n")))
    assert code == 10, output
    assert "disttest: not run, because mine did not pass: again. To run them anyway, use --keep-going." in output
    assert not (tmp_path / "disttest-report-again.json").exists()


@pytest.mark.soak
def test_the_environment_of_the_spec_reaches_the_ranks_and_a_report_may_be_replaced(
    start: Start, tmp_path: Path
) -> None:
    source = "import os\ndef test_a(): assert os.environ['COLOUR'] == 'red'\n"
    folder = files(tmp_path, source)
    coloured = MINE + "  env: [{name: COLOUR, value: red}]\n"
    assert finish(start(coloured, folder, "--report=out.json"))[0] == 0
    assert finish(start(MINE, folder, "--report=out.json"))[0] == 10
    assert Report.loads((tmp_path / "out.json").read_bytes()).verdict is Verdict.TESTS_FAILED


def test_ctrl_c_ends_everything_and_keeps_what_is_known(start: Start, tmp_path: Path, environ: dict[str, str]) -> None:
    source = "import time\ndef test_a(): pass\ndef test_b():\n    print('asleep', flush=True)\n    time.sleep(1000)\n"
    process = start(MINE, files(tmp_path, source))
    lines: list[str] = []
    assert process.stdout is not None
    output = process.stdout
    reader = threading.Thread(target=lambda: lines.extend(output), daemon=True)
    reader.start()
    wait_for(lambda: any("asleep" in line for line in lines), "no rank fell asleep", 40, lambda: "".join(lines))
    process.send_signal(signal.SIGINT)
    assert process.wait(patience.stretched(10)) == 20
    reader.join(5)
    output.close()
    report = Report.loads((tmp_path / "disttest-report-mine.json").read_bytes())
    assert (report.verdict, report.reason) == (Verdict.CANCELLED, Reason.CANCELLED)
    wait_for(lambda: not marked(environ[MARK]), "processes left", 3, lambda: str(marked(environ[MARK])))


def test_a_killed_command_takes_its_agents_along(start: Start, tmp_path: Path, environ: dict[str, str]) -> None:
    process = start(MINE, files(tmp_path, "import time\ndef test_a(): time.sleep(1000)\n"))
    wait_for(lambda: len(marked(environ[MARK])) >= 5, "ranks", 40)
    process.kill()
    process.communicate()
    wait_for(lambda: not marked(environ[MARK]), "processes left", 8, lambda: str(marked(environ[MARK])))


def test_the_deadline_can_be_given(start: Start, tmp_path: Path) -> None:
    code, output = finish(start(MINE, files(tmp_path, "import time\ndef test_a(): time.sleep(1000)\n"), "--timeout=4"))
    assert code == 10
    assert "TimedOut (RunTimeout)" in output


KEEPING = """
import pathlib

def test_bad_at_first(gang):
    mark = pathlib.Path(f"seen-{gang.rank}")
    is_first = not mark.exists()
    mark.touch()
    assert not is_first
"""


@pytest.mark.soak
def test_a_failed_case_is_tried_again_as_often_as_the_file_says(start: Start, tmp_path: Path) -> None:
    source = KEEPING.replace('"seen', f'"{tmp_path}/seen')
    code, output = finish(start(MINE, files(tmp_path, source)))
    assert code == 0, output
    report = Report.loads((tmp_path / "disttest-report-mine.json").read_bytes())
    assert (report.counts.flaky, report.counts.total) == (1, 1)
    for mark in tmp_path.glob("seen-*"):
        mark.unlink()
    code, output = finish(start(MINE + "  retries: {flaky: 0}\n", f"--files=files={tmp_path / 'files'}"))
    assert code == 10, output


@pytest.mark.soak
def test_the_variables_of_a_suite_win_over_those_of_the_spec(start: Start, tmp_path: Path) -> None:
    source = "import os\ndef test_a(): assert (os.environ['A'], os.environ['B']) == ('suite $(B) $$', 'spec')\n"
    text = MINE.replace("}}]", "}, env: [{name: A, value: suite $(B) $$}]}]")
    text += "  env: [{name: A, value: spec}, {name: B, value: spec}]\n"
    code, output = finish(start(text, files(tmp_path, source)))
    assert code == 0, output


def test_files_are_found_below_the_root_and_cases_are_chosen(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "torch" / "test" / "deep"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text("def test_a(): pass\ndef test_b(): assert False\n")
    (folder / "test_other.py").write_text("def test_c(): assert False\n")
    text = MINE.replace("configMap: {name: files}", 'files: ["test/**/*_it.py"], select: not test_b')
    code, output = finish(start(text, "--root=torch"))
    assert code == 0, output
    report = Report.loads((tmp_path / "disttest-report-mine.json").read_bytes())
    assert [case.id for suite in report.suites for case in suite.cases] == ["test/deep/test_it.py::test_a"]


@pytest.mark.soak
def test_artifacts_have_a_folder_or_a_line_that_says_that_they_are_not_kept(start: Start, tmp_path: Path) -> None:
    claimed = MINE + "  artifacts: {persistentVolumeClaim: dumps}\n"
    folder = files(tmp_path, "def test_a(): pass\n")
    code, output = finish(start(claimed, folder))
    assert code == 0, output
    assert "disttest: mine: claim 'dumps' of spec.artifacts is not available" in output
    code, output = finish(start(claimed, folder, "--artifacts=kept"))
    assert code == 0, output
    assert "claim 'dumps'" not in output
    assert (tmp_path / "kept").is_dir()


KNOWN = """
import pytest, torch
import torch.distributed as dist

def test_good(gang, process_group):
    dist.all_reduce(torch.ones(1))

@pytest.mark.parametrize("size", [1, 2])
def test_known(gang, size):
    assert gang.rank != 1, "one is odd"

def test_works_again(): pass
"""
LISTED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: known}\ndata:\n  mine: |\n"
LINES = "    # ticket 4711\n    test_it.py::test_known[*]\n    *::test_works_again\n    test_it.py::test_gone\n"
QUARANTINED = MINE + "  quarantine: {configMap: {name: known}}\n"


def test_known_failures_run_and_leave_a_run_green(start: Start, tmp_path: Path) -> None:
    code, output = finish(start(LISTED + LINES + "---\n" + QUARANTINED, files(tmp_path, KNOWN)))
    assert code == 0, output
    report = Report.loads((tmp_path / "disttest-report-mine.json").read_bytes())
    [suite] = report.suites
    assert (report.counts[Outcome.PASSED], report.counts[Outcome.FAILED], report.counts.quarantined) == (2, 2, 2)
    marked_cases = [case.id for case in suite.cases if case.is_excused]
    assert marked_cases == ["test_it.py::test_known[1]", "test_it.py::test_known[2]"]
    assert all(case.earlier == () for case in suite.cases), "they are not tried again"
    assert suite.message == (
        "2 of 4 cases passed, 2 quarantined failures; "
        "warning: quarantine patterns that match no case: test_it.py::test_gone; "
        "quarantine patterns to remove, because their cases pass: *::test_works_again"
    )
    assert "Passed (AllCasesPassed): 2 of 4 cases passed in 1 suite, 2 quarantined failures" in output
    assert "mine: test_it.py::test_known[2]: in quarantine: failed after" in output


@pytest.mark.soak
def test_a_folder_stands_for_the_list_as_for_files(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "mine").write_text("test_it.py::test_known[1]\n")
    code, output = finish(start(QUARANTINED, files(tmp_path, KNOWN), f"--files=known={folder}"))
    assert code == 10, output
    assert "TestsFailed (CasesFailed): mine: 1 of 4 cases failed, 1 quarantined failure; first" in output


WRONG = {
    "no file": (None, [], "cannot be read"),
    "no yaml": ("a: [", [], "is not YAML"),
    "binary": ("\x00\x01", [], "is not YAML"),
    "empty": ("", [], "contains no DistTest"),
    "other kind": ("kind: Pod\n", [], "kind: must be DistTest"),
    "list": ("[1, 2]\n", [], "must be a DistTest object"),
    "misspelt": (MINE.replace("ranksPerNode", "ranksPerNod"), [], "ranksPerNod"),
    "unknown suite": (
        MINE.replace("configMap: {name: files}", "builtin: colectives"),
        [],
        "Known suites: c10d-spawn, collectives, data-parallel",
    ),
    "files missing": (MINE, [], "Use --files files=DIR"),
    "folder missing": (MINE, ["--files=files=no-such-folder"], "an existing folder"),
    "files senseless": (MINE, ["--files=files"], "Write NAME=DIR"),
    "no GPUs": (MINE.replace("nodes: 2\n  gpusPerNode: 0", "gpusPerNode: 1"), [], "set `gpusPerNode: 0`"),
    "several nodes with GPUs": (MINE.replace("gpusPerNode: 0", "gpusPerNode: 1"), [], "`gpusPerNode: 0`"),
    "no upstream": (FILES, ["--root=no-such-folder"], "Use --root DIR"),
    "two sources": (
        MINE.replace("configMap", "files: [a.py], configMap"),
        [],
        "configMap and files are mutually exclusive",
    ),
    "artifacts in a file": (MINE, ["--files=files=.", "--artifacts=test.yaml"], "Name a writable folder"),
    "artifacts in no folder": (MINE, ["--files=files=.", "--artifacts=no/such/folder"], "Name a writable folder"),
    "no list": (QUARANTINED, ["--files=files=."], "or use --files known=DIR"),
    "list of another namespace": (
        LISTED.replace("known}", "known, namespace: other}") + LINES + "---\n" + QUARANTINED,
        ["--files=files=."],
        "Add it to the file of the DistTest",
    ),
    "list of no suite": (
        LISTED.replace("mine:", "main:") + LINES + "---\n" + QUARANTINED,
        ["--files=files=."],
        "key 'main' is not a suite of this run. Its suites: mine",
    ),
    "list in a wrong folder": (QUARANTINED, ["--files=files=.", "--files=known=."], "key 'test.yaml' is not a suite"),
    "only a list": (LISTED + LINES, [], "contains no DistTest"),
    "list without a name": ("kind: ConfigMap\n---\n" + MINE, [], "a ConfigMap needs metadata.name"),
    "too much": (MINE.replace("}}]", f"}}, env: [{LONG}]}}]"), ["--files=files=."], "into several DistTests"),
    "timeout": (MINE, ["--timeout=soon"], "'soon' is not a valid integer"),
    "path too": (MINE, ["."], "-f and PATH exclude each other"),
    "ranks too": (MINE, ["--ranks=2"], "--ranks requires --suite or PATH"),
    "no such suite": (MINE, ["--suite=yours"], "test.yaml has no suite 'yours'. Its suites: mine"),
    "until keep": (MINE, ["--until-fail", "--keep-going"], "--until-fail and --keep-going exclude each other"),
    "until two": (TWO, ["--files=files=.", "--until-fail"], "would run only the first of 2 DistTests"),
    "repeat never": (MINE, ["--repeat=0"], "0 is not in the range x>=1"),
    "report taken": (MINE, ["--files=files=.", "--report=test.yaml"], "is not a report"),
    "report in no folder": (MINE, ["--files=files=.", "--report=no/such/folder.json"], "cannot be written"),
    "report twice": (MINE + "---\n" + MINE, ["--files=files=.", "--report=x.json"], "Remove --report"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_one_line_and_2(name: str, start: Start, tmp_path: Path) -> None:
    text, arguments, words = WRONG[name]
    process = start(text or "", *arguments, *(["-f", "no-such-file.yaml"] if text is None else []))
    code, output = finish(process)
    assert code == 2, output
    assert words in output
    assert "Traceback" not in output
    last = output.strip().splitlines()[-1]
    assert last.startswith("disttest")
    assert output.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["test.yaml"]
