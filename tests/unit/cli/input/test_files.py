"""Files that are none, that have no end, or that hold too much: one sentence each, and nothing waits for ever."""

import errno
import gzip
import json
import os
import threading
from pathlib import Path

import pytest

from disttest_cli.input import files
from disttest_cli.main import main
from disttest_contract import limits
from disttest_contract.results.report import SCHEMA
from tests.unit.cli.kube.test_stored import RAW

ODD = {
    "empty": b"",
    "zeros": bytes(1 << 20),
    "deep": b"[" * 100_000,
    "deep, but small": b"[" * 900 + b"]" * 900,
    "huge number": b'{"schema": ' + b"9" * 100_000 + b"}",
    "not UTF-8": b'{"schema": 1, "run": "\xff"}',
    "doubled keys": b'{"schema": 1, "schema": 2}',
    "no number": RAW.replace(b'"attempt":2', b'"attempt":NaN'),
    "a list": b"[]",
    "a word": b'"report"',
    "bomb": gzip.compress(bytes(limits.REPORT_BYTES + 100)),
    "cut gzip": gzip.compress(RAW)[:100],
    "two gzips": gzip.compress(b"") + gzip.compress(RAW),
}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_what_is_no_report_is_refused_in_one_sentence(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "report.json").write_bytes(content)
    assert "report.json is not a report: " in refused(capsys, "report", "-f", str(tmp_path / "report.json"))


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "Is a directory"),
        ("/dev/zero", "is not a report: "),
        ("a\0b", "null byte"),
        ("a" * 300, "File name too long"),
    ],
)
def test_what_is_no_file_is_refused_in_one_sentence(path: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refused(capsys, "report", "-f", path)
    assert words.replace("is not a report: ", "is larger than") in refused(capsys, "plan", "-f", path)


class TestPipe:
    @pytest.fixture
    def pipe(self, tmp_path: Path) -> str:
        os.mkfifo(tmp_path / "pipe")
        return str(tmp_path / "pipe")

    def test_a_pipe_without_a_writer_times_out(self, pipe: str) -> None:
        with pytest.raises(TimeoutError, match=r"no data from this pipe within 0\.01 s") as caught:
            files.read(pipe, 100, silence_seconds=0.01)
        assert caught.value.errno == errno.ETIMEDOUT

    def test_a_pipe_is_read_to_its_end_in_any_order_of_opening(self, pipe: str) -> None:
        writer = threading.Thread(target=lambda: Path(pipe).write_bytes(RAW))
        writer.start()
        assert files.read(pipe, len(RAW)) == RAW
        writer.join()

    def test_without_an_end_is_read_up_to_the_limit(self) -> None:
        reading, writing = os.pipe()
        try:
            os.write(writing, b"x" * 1000)
            assert files.read(f"/dev/fd/{reading}", 100) == b"x" * 101
        finally:
            os.close(reading)
            os.close(writing)


def of_yaml(value: str) -> str:
    return f"{{apiVersion: disttest.dev/v1alpha1, kind: DistTest, metadata: {{name: x}}, spec: {value}}}"


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize("command", ["apply", "plan", "run"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "Remove the aliases"),
        (f"&a [*a, {of_yaml('{}')}]", "Remove the aliases"),
        (of_yaml("{1: x}"), "the key 1 is not a string. Write it in quotes"),
        (of_yaml("{0: x}"), "the key 0 is not a string"),
        (of_yaml("{? [1] : x}"), "is not YAML: "),
        (of_yaml("9" * 5000), "is not YAML: "),
        (of_yaml("9999-99-99"), "is not YAML: "),
        (of_yaml("!!python/object:os.system {}"), "is not YAML: "),
        (of_yaml("[" * 500 + "]" * 500), "is not YAML: "),
        (" " * (5 << 20), "is larger than 4194304 bytes"),
    ],
    ids=lambda value: value[:20],
)
def test_yaml_that_is_out_for_trouble_is_refused_in_one_sentence(
    command: str, text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert words in refused(capsys, command, "-f", str(tmp_path / "run.yaml"))


def test_a_report_is_not_written_over_what_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero", tmp_path):
        assert main(["run", "--suite", "collectives", "--ranks", "2", "--report", str(place)]) == 2
        assert f"disttest: {place} is not a file. Name another file" in capsys.readouterr().err


def test_a_link_is_followed_as_a_shell_does_and_nothing_else_is_touched(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(RAW)
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to("there")
    assert main(["report", "-f", str(tmp_path / "report.json"), "-o", f"json={tmp_path / 'link'}"]) == 0
    assert (tmp_path / "link").is_symlink()
    assert json.loads((tmp_path / "there").read_text())["schema"] == SCHEMA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "report.json", "there"]
