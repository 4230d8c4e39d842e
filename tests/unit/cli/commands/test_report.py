"""`disttest report`: where reports come from, in which formats they go where, and what is said when they cannot."""

import gzip
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from disttest_cli.errors import UsageError
from disttest_cli.formats.subject import Subject
from disttest_cli.main import main
from disttest_cli.views import outputs, terminal
from disttest_cli.views.outputs import Output
from disttest_contract.outcomes import Verdict
from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.fakes.canned import NAMESPACE, Server
from tests.support.reports import report_samples as samples
from tests.unit.cli.kube.test_stored import FINISHED, NAME, REPORT, a_config_map, a_run


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "report.json"
    path.write_bytes(REPORT.dumps())
    return str(path)


def test_a_run_of_the_cluster_is_shown_as_text(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [a_run(**FINISHED), a_config_map()]
    assert main(["report", NAME, "--kubeconfig", server.kubeconfig(tmp_path)]) == 0, "whatever its verdict"
    out = capsys.readouterr().out
    assert out.startswith(f"{REPORT.namespace}/{NAME}, attempt 2: 2 nodes x 8 ranks with nccl")
    assert f"/namespaces/{NAMESPACE}/" in server.requests[0].path
    assert "missed: 70.0 GB/s" in out, "thresholds are the report's own"


def test_another_namespace_and_attempt_can_be_asked_for(server: Server, tmp_path: Path) -> None:
    status = FINISHED | {"attempts": [{"number": 1, "report": "first"}]}
    server.answers = [a_run(**status), a_config_map()]
    command = ["report", NAME, "-n", "other", "--attempt", "1", "--kubeconfig", server.kubeconfig(tmp_path)]
    assert main(command) == 0
    assert server.requests[1].path == "/api/v1/namespaces/other/configmaps/first"


def test_a_file_in_every_format_and_several_at_once(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    xml, ctrf, text = (tmp_path / name for name in ("junit.xml", "ctrf.json", "report.txt"))
    assert main(["report", "-f", file, "-o", f"junit={xml}", "-o", f"ctrf={ctrf}", "-o", f"text={text}"]) == 0
    assert capsys.readouterr().out == f"junit: {xml}\nctrf: {ctrf}\ntext: {text}\n"
    assert ET.parse(xml).getroot().get("tests") == "400"  # noqa: S314  # our own
    assert json.loads(ctrf.read_text())["reportFormat"] == "CTRF"
    assert text.read_text().splitlines()[-1].startswith("Hung (CasesHung)")


def test_one_format_may_go_to_standard_output_and_is_alone_there(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "-f", file, "-o", "markdown", "-o", f"junit={tmp_path / 'junit.xml'}"]) == 0
    assert capsys.readouterr().out.startswith("# ❌ Hung (CasesHung)")


def test_json_is_the_report_and_fits_its_schema(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "-f", file, "-o", "json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert Report.loads(out.encode()) == REPORT
    assert main(["report", "--schema"]) == 0
    jsonschema.validate(json.loads(out), json.loads(capsys.readouterr().out))


def test_json_is_json_whatever_the_report_holds() -> None:
    text = outputs.render_report(Subject(report=samples.hostile()), "json")
    assert json.loads(text, parse_constant=pytest.fail)["trimmed"]


def test_markdown_is_as_small_as_it_is_asked_to_be(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "-f", file, "-o", "markdown", "--limit-bytes", "5000"]) == 0
    assert 1000 < len(capsys.readouterr().out.encode()) <= 5000


def test_the_text_of_a_hostile_report_steers_no_terminal() -> None:
    text = outputs.render_report(Subject(report=samples.hostile()), "text")
    assert not [one for one in set(text) if not (one.isprintable() or one in "\n\t")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "neither a run nor a file is given"),
        (["a", "-f", "b"], "both a run ('a') and a file ('b') are given"),
        (["-f", "b", "--attempt", "1"], "--attempt requires a run on a cluster"),
        (["-f", "no-such-file"], "no-such-file cannot be read: No such file or directory"),
        (["a", "-o", "pdf"], "-o pdf: format 'pdf' is unknown. Use one of text, json, junit, ctrf, html, markdown"),
        (["a", "-o", "junit="], "-o junit= names no file"),
        (["a", "-o", "junit", "-o", "json"], "two formats are written to standard output"),
        (["a", "-o", "junit=x", "-o", "json=./x"], "two formats are written to"),
        (["a", "--limit-bytes", "5000"], "--limit-bytes requires -o markdown"),
        (["a", "--limit-bytes", "5"], "5 is not in the range x>=4096"),
        (["a", "--attempt", "0"], "0 is not in the range x>=1"),
        (["a", "--kubeconfig", "no-such-file"], "no kubeconfig found"),
    ],
)
def test_a_wrong_command_is_an_error_of_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_file_that_cannot_be_written_is_named(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "-f", file, "-o", f"junit={tmp_path / 'no' / 'junit.xml'}"]) == 2
    assert "cannot be written: No such file or directory. Name another file" in capsys.readouterr().err


def test_a_format_whose_package_is_not_installed_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "disttest_cli.formats.junit", None)
    with pytest.raises(UsageError, match=r"format junit needs the Python package .* Install disttest\[cli\]"):
        outputs.render_report(Subject(report=REPORT), "junit")


class TestWriting:
    def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(self, tmp_path: Path) -> None:
        path = tmp_path / "report.html"
        path.write_text("old")
        path.chmod(0o640)
        outputs.write(path, "new ✅")
        assert path.read_text(encoding="utf-8") == "new ✅"
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

    def test_a_new_file_has_the_mode_that_the_user_gives_files(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            outputs.write(tmp_path / "new", "x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640

    def test_behind_a_link_the_file_is_written_and_the_link_stays(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "file")
        outputs.write(tmp_path / "link", "x")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_text() == "x"

    def test_a_pipe_is_written_to(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        outputs.write(tmp_path / "pipe", "x")
        assert os.read(reader, 10) == b"x"
        os.close(reader)

    def test_a_text_that_cannot_be_written_leaves_what_was_there(self, tmp_path: Path) -> None:
        path = tmp_path / "report"
        path.write_text("old")
        with pytest.raises(UnicodeEncodeError):
            outputs.write(path, "\ud800")
        assert (path.read_text(), [*tmp_path.iterdir()]) == ("old", [path])

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot be written: Is a directory"):
            outputs.write(tmp_path, "x")


def test_without_o_it_is_text() -> None:
    assert outputs.parse([], outputs.FORMATS, default=outputs.TEXT) == [Output(format="text")]


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        ("Hung (CasesHung): Passed by", ["Hung", "Passed"]),
        ("suite: a::b: crashed after 2.00 s", ["crashed"]),
        ("crashed in the name only", []),
        ("    Hung: what a test has said", []),
        ("all_reduce  float32  missed: 400 GB/s", ["missed"]),
    ],
)
def test_verdicts_and_bad_endings_are_coloured_on_a_terminal(line: str, coloured: list[str]) -> None:
    text = terminal.coloured(line)
    assert [text.plain[span.start : span.end] for span in text.spans] == coloured
    assert text.plain == line
    assert all(verdict.value in terminal.STYLES for verdict in Verdict)


PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(["kubernetes", "urllib3", "torch", "jinja2"]))
from disttest_cli.main import main
sys.exit(main(["report", "-f", "-", "-o", "markdown"]))
"""


def test_a_report_on_standard_input_needs_neither_kubernetes_nor_a_template() -> None:
    raw: Any = gzip.compress(REPORT.dumps())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=raw, capture_output=True, check=True, timeout=patience.stretched(60)
    )
    assert done.stdout.decode().startswith("# ❌ Hung")
