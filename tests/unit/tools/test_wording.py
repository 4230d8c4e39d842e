"""The check of words and spelling: what it finds, what it ignores, and that the repository passes."""

from pathlib import Path

import pytest

from devcluster.programs import gobuild
from tests.support.paths import ROOT
from tools import wording

needs_vale = pytest.mark.skipif(wording.find_vale() is None, reason="Vale is not built: run `make check`")


def found(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that are reported for a file with this text, without its folder."""
    file.write_text(text)
    code = wording.main([str(file)])
    *lines, last = capsys.readouterr().out.splitlines()
    assert code == int(bool(lines)), last
    return [line.removeprefix(f"{file.parent}/") for line in lines]


@needs_vale
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "One.\n\nIt seldom fails.\n"),  # plain: ok
        ("a.md", "| a |\n|---|\n| seldom |\n"),  # plain: ok
        ("a.py", "\n\nHELP = 'Seldom used'\n"),  # plain: ok
        ("a.py", "\n\n# It seldom fails.\n"),  # plain: ok
        ("a.yaml", "properties:\n  a:\n    description: A seldom used field.\n"),  # plain: ok
        ("a.html", "\n\n<p>It seldom fails.</p>\n"),  # plain: ok
    ],
)
def test_a_phrase_is_reported_with_its_line_and_replacement(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = found(tmp_path / name, text, capsys)
    assert line.startswith(f"{name}:3: ")
    assert line.lower().endswith("'seldom' → rarely (literary)")  # plain: ok


@needs_vale
def test_a_phrase_over_two_lines_of_a_page_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = found(tmp_path / "a.md", "It is used in place\nof another.\n", capsys)  # plain: ok
    assert "instead of" in line


@needs_vale
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "Plain words, and `seldom` as code.\n\n```\nseldom\n```\n"),  # plain: ok
        ("a.md", "A quotation: it seldom fails. <!-- plain: ok -->\n"),
        ("a.py", "seldom_used = 1  # a name is not a word\n"),  # plain: ok
        ("a.py", "QUOTED = 'seldom'  # plain: ok\n"),
        ("a.py", "# " + "word " * 50 + "\n"),
    ],
)
def test_plain_words_code_and_marked_lines_pass(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(tmp_path / name, text, capsys) == []


@needs_vale
def test_a_long_sentence_of_a_page_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(tmp_path / "a.md", "word " * 40 + ".\n", capsys) == [
        "a.md:1: sentence of more than 40 words → split it"
    ]


@needs_vale
def test_a_typo_is_reported_with_its_line_and_correction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "One.\n\nThe bandwith.\n"  # codespell:ignore bandwith
    assert found(tmp_path / "a.md", text, capsys) == ["a.md:3: bandwith → bandwidth"]  # codespell:ignore bandwith


@needs_vale
def test_the_words_of_the_repository_are_plain() -> None:
    assert list(wording.words(wording.files())) == []


def test_the_spelling_of_the_repository_is_correct() -> None:
    assert list(wording.typos(wording.files())) == []


def test_a_missing_vale_is_an_error_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gobuild, "INSTALLED_GO", tmp_path / "go")
    monkeypatch.setattr(gobuild, "cached", lambda _: None)
    monkeypatch.setattr(gobuild, "_place", lambda _: tmp_path / "vale")
    assert wording.main(["README.md"]) == 2
    assert "install Vale 3 from https://vale.sh" in capsys.readouterr().err


def test_every_rule_has_a_replacement_and_a_reason() -> None:
    text = (ROOT / "tools/vale/styles/DistTest/Words.yml").read_text()
    rows = [line for line in text.partition("swap:\n")[2].splitlines() if not line.lstrip().startswith("#")]
    assert rows
    rules = [row.removesuffix(f"  # {wording.KEEP}").rstrip("'") for row in rows]
    assert [rule for rule in rules if not rule.endswith(")") or "': '" not in rule] == []
