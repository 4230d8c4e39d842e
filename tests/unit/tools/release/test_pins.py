"""Whatever is installed from an index is pinned to the bytes of its files."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT
from tools.release import installed
from tools.release.commit import ReleaseError

FILES = ("constraints.txt", "installer.txt", "tests/soak/oldest_pytest.txt", "tests/soak/oldest_torch.txt")
SUM = "sha256:" + 64 * "0"
# Where commands that install something are written.
SCRIPTS = ("Dockerfile", "Makefile", ".ci/run", "devcluster", "tools", "bench", "tests")
TEXT = {"", ".py", ".md", ".sh"}
# Options of an installation: sums of all files, or no index at all.
TIED = ("--require-hashes", "--no-index", "--offline", "--no-build-isolation")


@pytest.mark.parametrize("file", FILES)
def test_every_requirement_is_one_version_with_sums(file: str) -> None:
    assert installed.read_pins((ROOT / file).read_text(), file)


@pytest.mark.parametrize("file", FILES)
def test_the_pins_name_no_host(file: str) -> None:
    text = (ROOT / file).read_text()
    assert "://" not in text
    assert "--index" not in text


def test_what_is_written_back_is_what_was_read() -> None:
    text = (ROOT / "constraints.txt").read_text()
    pins = installed.read_pins(text)
    assert installed.read_pins("".join(pin.lines for pin in pins)) == pins


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("click", "'click' is not pinned to one version: write click==VERSION"),
        ("click>=8", "'click>=8' is not pinned to one version"),
        ("click==8.*", "is not pinned to one version"),
        ("click==8.5.1", "'click==8.5.1' has no sha256 sums"),
        ("click==8.5.1 --hash=md5:00", "has no sha256 sums"),
        (f"click==8.5.1 --hash=md5:00 --hash={SUM}", "has no sha256 sums"),
        (f"click @ file:///x.whl --hash={SUM}", "is not pinned to one version"),
        ("--extra-index-url=x", "is not a pinned requirement"),
        (f"-e . --hash={SUM}", "is not a pinned requirement"),
    ],
)
def test_what_is_not_pinned_is_named(line: str, problem: str) -> None:
    with pytest.raises(ReleaseError) as error:
        installed.read_pins(f"# of a test\n{line}\n", "f.txt")
    assert problem in str(error.value)
    assert str(error.value).startswith("f.txt: ")


def test_requirements_of_pyproject_are_pinned_to_allowed_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
    asked += project["project"]["dependencies"] + project["build-system"]["requires"]
    found = installed.read_pins((ROOT / "constraints.txt").read_text())
    for requirement in map(Requirement, asked):
        if requirement.name == "disttest":
            continue
        versions = [pin.version for pin in found if pin.name == canonicalize_name(requirement.name)]
        assert versions, requirement
        assert all(map(requirement.specifier.contains, versions)), requirement


def test_the_images_take_their_sums_from_the_pins(tmp_path: Path) -> None:
    """uv writes those of the index, whatever sums its constraints have."""
    text = (ROOT / "Dockerfile").read_text()
    assert "--generate-hashes" not in text
    found = re.search(r"awk ('.+?') names\.txt constraints\.txt", text)
    assert found
    wanted = [
        pin for pin in installed.read_pins((ROOT / "constraints.txt").read_text()) if pin.name in {"click", "numpy"}
    ]
    lines = [f"{pin.name}=={pin.version} ; {pin.marker or 'of another'}" for pin in wanted]
    (tmp_path / "names.txt").write_text("\n".join([*lines, "no-such==1.0"]))
    command = f"awk {found[1]} names.txt {ROOT}/constraints.txt"
    chosen = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert {pin.name for pin in wanted} == {"click", "numpy"}
    assert installed.read_pins(chosen) == tuple(wanted)


def test_no_command_installs_what_is_not_pinned() -> None:
    commands = [(file, command) for file in _scripts() for command in _installations(file.read_text())]
    assert {file.name for file, _ in commands} >= {"Dockerfile", "bootstrap.py"}, "the search finds nothing"
    loose = [(file.name, command) for file, command in commands if not any(tie in command for tie in TIED)]
    assert loose == []


def test_no_command_fetches_the_newest_of_anything() -> None:
    newest = re.compile(r"@latest|:latest\b|\b(?:curl|wget) [^\n]*https://|urlretrieve\(")
    found = [(file.name, match[0]) for file in _scripts() for match in newest.finditer(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "command",
    [
        "RUN pip install uv",
        'run("x", python, "-m", "pip", "install", "-q", "uv")',
        "RUN uv pip install --no-cache \\\n  -r requirements.txt && true",
        'installer, "pip", "sync", CONSTRAINTS,',
        "RUN uv tool run ruff",
        "uvx ruff",
        "RUN npm install left-pad",
    ],
)
def test_an_unpinned_command_is_found(command: str) -> None:
    found = list(_installations(command))
    assert found
    assert not any(tie in one for one in found for tie in TIED)


def test_go_modules_have_their_sums() -> None:
    found = [path for path in ROOT.glob("*/**/go.mod") if ".venv" not in path.parts]
    assert found
    for module in found:
        text, sums = module.read_text(), module.with_name("go.sum").read_text()
        named = re.findall(r"^\s*(?:require )?([\w./~-]+\.[\w./~-]+) (v\S+)", text, re.MULTILINE)
        modules = [one for one in named if one[1] != "v0.0.0"]  # that is no version: another one takes its place
        assert modules
        assert [one for one in modules if f"{one[0]} {one[1]}/go.mod h1:" not in sums] == []


def test_images_are_based_on_named_versions() -> None:
    text = (ROOT / "Dockerfile").read_text()
    stages = set(re.findall(r" AS (\S+)$", text, re.MULTILINE))
    bases = [line.split()[1] for line in text.splitlines() if line.startswith("FROM ")]
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    named = {defaults.get(base.strip("${}"), base) for base in bases}
    outside = named - stages - {"scratch"}
    assert outside == {"python:3.13-slim", "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime"}
    assert "# syntax=" not in text, "a front end by tag is one more image without a pin"


def _scripts() -> Iterator[Path]:
    for name in SCRIPTS:
        place = ROOT / name
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (file for file in files if file.is_file() and file.suffix in TEXT and "unit" not in file.parts)


def _installations(text: str) -> Iterator[str]:
    """Each shell command, or call of a program in Python."""
    plain = re.sub(r"\\\n", " ", text)
    pip = r"\bpip3? (?:install|sync|download) (?!\[)[^\n;&|`]*"  # a bracket starts a pattern for such a command
    others = r"\buvx [^\n]*|\buv tool [^\n]*|\bnpm (?:install|i) [^\n]*"
    called = r'"pip", "(?:install|sync|download)"[^\n]*'
    yield from re.findall(f"{pip}|{others}|{called}", plain)
