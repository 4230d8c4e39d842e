"""Every command and manifest of README, docs and --help: it parses, and what needs no cluster is run."""

import ast
import gzip
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import yaml

from disttest_cli.input import manifests
from disttest_cli.main import COMMANDS, commands, main
from tests.support.builders.runs import a_report
from tests.support.paths import ROOT

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`disttest ([a-z]+)((?: [^`]*)?)`")
COMMAND = re.compile(r"(?:^| )disttest ([a-z]+\b.*)|'disttest ([a-z]+\b[^']*)'")
DRAWN = "─"  # lines of a diagram
SHELL = re.compile(r"(?:>>|>|\||&&|;)$")
KUBECTL = re.compile(r"kubectl (apply|create) (?:-n \S+ )?-f (\S+\.yaml)")
SUITES = ROOT / "runner/disttest_runner/suites"


@dataclass(frozen=True, slots=True)
class Example:
    place: str
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        return " ".join(self.words)


def loaded(name: str) -> click.Command:
    return commands.get_command(click.Context(commands), name) or pytest.fail(f"no command {name}")


def examples() -> Iterator[Example]:
    for page in PAGES:
        for block in FENCED.finditer(page.read_text()):
            yield from _of(page.name, block[2])
    for name in COMMANDS:
        yield from _of(f"{name} --help", loaded(name).epilog or "")


def _of(place: str, text: str) -> Iterator[Example]:
    for line in text.splitlines():
        found = None if DRAWN in line or line.startswith("disttest run [") else COMMAND.search(line)
        if found and not re.search(r"\[(?:OPTIONS|PATH)", line):
            words = shlex.split(found[1] or found[2], comments=True)
            end = next((place for place, word in enumerate(words) if SHELL.match(word)), len(words))
            yield Example(place, tuple(words[:end]))


EXAMPLES = tuple(dict.fromkeys(examples()))


def test_there_are_examples_in_readme_docs_and_help() -> None:
    places = {example.place for example in EXAMPLES}
    assert {"README.md", "local-runs.md", "comparing.md", "reports.md", "run --help", "report --help"} <= places
    assert len(EXAMPLES) > 25


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.line)
def test_an_example_has_a_command_with_options_and_choices_that_exist(example: Example) -> None:
    name, *arguments = example.words
    loaded(name).make_context(name, arguments).close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_a_sentence_has_options_that_exist(page: Path) -> None:
    for name, rest in INLINE.findall(FENCED.sub("", page.read_text())):
        known = {option for param in loaded(name).params for option in param.opts} | {"--help"}
        assert {word.split("=")[0] for word in re.findall(r"(?<![\w-])--?[a-z][\w-]*", rest)} <= known, (name, rest)


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if "-f" in example.words and example.words[0] in {"run", "apply", "plan"}],
    ids=lambda example: example.line,
)
def test_a_file_of_an_example_exists_and_is_accepted(example: Example) -> None:
    file = example.words[example.words.index("-f") + 1]
    if file == "run.yaml":  # the reader's own
        return
    assert main(["plan", "-f", str(ROOT / file), "-o", "json"]) == 0


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if "--case" in example.words], ids=lambda example: example.line
)
def test_a_case_of_an_example_exists(example: Example) -> None:
    words = example.words
    file, _, case = words[words.index("--case") + 1].partition("::")
    if "--suite" not in words:
        assert Path(words[1]).name == file
        return
    suite = SUITES / words[words.index("--suite") + 1].replace("-", "_") / file
    cases = {node.name: node for node in ast.parse(suite.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert case in cases
    assert not [one for one in cases[case].decorator_list if "parametrize" in ast.unparse(one)], "its ids have brackets"


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.words[0] in {"report", "compare"}],
    ids=lambda example: example.line,
)
def test_the_reports_of_an_example_are_written_and_compared(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of runs stand for reports in files: nothing else of these commands needs a cluster."""
    monkeypatch.chdir(tmp_path)
    Path("last-week").mkdir()
    raw = a_report().dumps()
    for name in ("report.json", "disttest-report-collectives.json", "disttest-report-test-mine.json"):
        Path(name).write_bytes(raw)
    for name in ("report.json.gz", "last-week/report.json.gz"):
        Path(name).write_bytes(gzip.compress(raw))
    name, *arguments = example.words
    if name == "report" and not arguments[0].startswith("-"):
        arguments = ["-f", "report.json", *arguments[1:]]
        if "--attempt" in arguments:
            place = arguments.index("--attempt")
            del arguments[place : place + 2]
    if name == "compare":
        own = [one for one in arguments if "json" in one] or ["./report.json", "./report.json"]
        options = arguments[arguments.index("-o") :] if "-o" in arguments else []
        arguments = [*own, *options]
    assert main([name, *arguments]) == 0
    for file in re.findall(r"=(\S+)", " ".join(arguments)):
        assert Path(file).stat().st_size


def yaml_blocks() -> Iterator[tuple[str, str, str]]:
    """Page, its section up to the next heading, and the block."""
    for page in PAGES:
        for section in re.split(r"^#+ ", page.read_text(), flags=re.MULTILINE):
            for block in FENCED.finditer(section):
                if block[1] == "yaml" and re.search(r"^kind: DistTest$", block[2], re.MULTILINE):
                    yield page.name, section, block[2]


@pytest.mark.parametrize(("page", "section", "block"), tuple(yaml_blocks()), ids=lambda value: value[:20])
def test_a_disttest_of_a_page_is_accepted_and_created_by_the_verb_that_takes_it(
    page: str, section: str, block: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{page}.yaml"
    file.write_text(block)
    assert manifests.read(str(file)).tests
    is_named = "name" in yaml.safe_load(block)["metadata"]
    assert ("kubectl apply -f" if is_named else "kubectl create -f") in section


def test_there_is_a_disttest_in_readme() -> None:
    assert "README.md" in {page for page, _, _ in yaml_blocks()}


def test_objects_with_a_generated_name_are_created_and_never_applied() -> None:
    """`kubectl apply` takes names only."""
    texts = [*PAGES, *sorted((ROOT / "manifests").rglob("*.yaml"))]
    found = [(text.name, *one) for text in texts for one in KUBECTL.findall(text.read_text())]
    assert found
    for place, verb, file in found:
        if not (ROOT / file).exists():
            continue
        kinds = [one for one in yaml.safe_load_all((ROOT / file).read_text()) if one and one["kind"] == "DistTest"]
        is_generated = any("generateName" in one["metadata"] for one in kinds)
        assert (verb == "create") or not is_generated, (place, file)
