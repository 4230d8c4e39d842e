"""Version, notes, images and files of a release."""

import gzip
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tools.release import build, commit, installed, version
from tools.release.commit import Commit, ReleaseError
from tools.release.installed import Pin
from tools.release.package_licences import PackageEntry, Role
from tools.release.version import ReleaseImages

DIGEST = "sha256:" + 64 * "a"
CHANGELOG = """# Changelog

## Unreleased

- new

## 0.2.0 (2026-12-01)

Fixes.

### Since 0.1.0

- old

## 0.1.0

- oldest
"""


def test_everything_names_the_one_version() -> None:
    files = build.places(ROOT)
    assert {"Dockerfile", "README.md", "docs/operating/images.md", "manifests/operator/deployment.yaml"} <= set(files)
    assert version.strays(files, version.read_version(files["pyproject.toml"])) == []


def test_a_version_that_is_to_be_released_has_notes() -> None:
    named = version.read_version((ROOT / "pyproject.toml").read_text())
    assert version.notes_of((ROOT / "CHANGELOG.md").read_text(), version.UNRELEASED if ".dev" in named else named)


def test_a_new_version_is_written_wherever_the_old_one_was_named() -> None:
    files = build.places(ROOT)
    made = version.changed(files, "9.8.7.dev0")
    assert {"pyproject.toml", "Dockerfile", "docs/operating/images.md", "manifests/nightly/cron-jobs.yaml"} <= set(made)
    assert version.strays({**files, **made}, "9.8.7.dev0") == []
    assert version.read_version(made["pyproject.toml"]) == "9.8.7.dev0"
    assert version.changed({**files, **made}, version.read_version(files["pyproject.toml"])) == {
        name: files[name] for name in made
    }


@pytest.mark.parametrize("wrong", ["1", "1.2", "v1.2.3", "1.2.3+local", "1.2.3-rc1", "01.2.3", "latest", ""])
def test_what_is_no_version_is_refused(wrong: str) -> None:
    with pytest.raises(ReleaseError, match=r"is not a version: write 1\.2\.3"):
        version.changed({}, wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("image: disttest-operator:0.1.1", ["f names 0.1.1"]),
        ("image: r.example/disttest-runner:0.1.1.dev0@sha256:00", ["f names 0.1.1.dev0"]),
        ("newTag: 0.1.1", ["f names 0.1.1"]),
        ('newTag: "0.1.1"', ["f names 0.1.1"]),
        ("ARG VERSION=0.1.1\nARG VERSION=0.1.2", ["f names 0.1.1", "f names 0.1.2"]),
        ("disttest-operator:0.1.0 disttest-operator:dev disttest-runner:1.0 newTag: dev", []),
    ],
)
def test_another_version_is_found(text: str, expected: list[str]) -> None:
    assert version.strays({"f": text}, "0.1.0") == expected


def test_notes_are_the_chapter_of_a_version() -> None:
    assert version.notes_of(CHANGELOG, "0.2.0") == "Fixes.\n\n### Since 0.1.0\n\n- old\n"
    assert version.notes_of(CHANGELOG, "Unreleased") == "- new\n"


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("0.1.0", "has no date for 0.1.0"),
        ("0.2", "has no chapter 0.2, it has Unreleased, 0.2.0, 0.1.0"),
        ("0.3.0", "has no chapter 0.3.0"),
    ],
)
def test_missing_release_notes_are_an_error(named: str, problem: str) -> None:
    with pytest.raises(ReleaseError, match=problem):
        version.notes_of(CHANGELOG, named)
    with pytest.raises(ReleaseError, match="has no entries for 0"):
        version.notes_of("## 0.1.0 (2026-01-01)\n\n## 0.0.9 (2025-01-01)\n- x\n", "0.1.0")


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (ReleaseImages(version="0.1.0"), "disttest-operator:0.1.0 --runner-image=disttest-runner:0.1.0"),
        (
            ReleaseImages(version="0.1.0", registry="r.example:50/b-c", operator_digest=DIGEST),
            f"r.example:50/b-c/disttest-operator:0.1.0@{DIGEST} --runner-image=r.example:50/b-c/disttest-runner:0.1.0",
        ),
    ],
)
def test_images_are_named_as_asked(images: ReleaseImages, expected: str) -> None:
    text = "disttest-operator:0.1.0 --runner-image=disttest-runner:0.1.0"
    assert images.problems() == []
    assert images.lacking(text) == []
    assert images.named(text) == expected


def test_other_images_stay_as_they_are() -> None:
    text = (
        "x/disttest-operator:0.1.0 my-disttest-runner:0.1.0 disttest-operator:0.1.0.dev0 disttest-runner:0.1.0@sha256:1"
    )
    images = ReleaseImages(version="0.1.0", registry="r.example")
    assert images.named(text) == text
    assert images.lacking(text) == ["disttest-operator:0.1.0", "disttest-runner:0.1.0"]


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (ReleaseImages(version="1", operator_digest="sha256:abc"), "OPERATOR_DIGEST=sha256:abc is not a digest"),
        (ReleaseImages(version="1", runner_digest=64 * "a"), "RUNNER_DIGEST=aaaa"),
        (
            ReleaseImages(version="1", registry="https://r.example"),
            "REGISTRY=https://r.example is not an image registry",
        ),
        (ReleaseImages(version="1", registry="r.example/"), "REGISTRY=r.example/ is not an image registry"),
    ],
)
def test_what_names_no_image_is_refused(images: ReleaseImages, problem: str) -> None:
    assert problem in images.problems()[0]


@pytest.mark.parametrize(
    ("made_of", "expected"),
    [
        (Commit(name="a", time=0), []),
        (Commit(name="a", time=0, tags=("v0.1.0", "nice")), []),
        (Commit(name="a", time=0, tags=("vacation",)), []),
        (Commit(name="a", time=0, tags=("v0.2.0",)), ["the commit has the tag v0.2.0, pyproject.toml has 0.1.0"]),
        (
            Commit(name="a", time=0, changes=("a", "b", "c", "d")),
            ["a, b, c and 1 more differ from the commit: commit or remove them"],
        ),
    ],
)
def test_only_a_clean_commit_of_that_version_is_released(made_of: Commit, expected: list[str]) -> None:
    assert commit.problems(made_of, "0.1.0") == expected


def test_all_problems_of_a_release_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('version = "0.1.0"\n')
    (tmp_path / "Dockerfile").write_text("ARG VERSION=0.0.9\n")
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n- x\n")
    (tmp_path / "constraints.txt").write_text(f"new==1.0 --hash={DIGEST}\n")
    (tmp_path / "tools/release").mkdir(parents=True)
    (tmp_path / "tools/release/licences.json").write_text("{}")
    with pytest.raises(ReleaseError) as error:
        build.checked(tmp_path, Commit(name="a", time=0, changes=("x",)), ReleaseImages(version="0.1.0", registry="/"))
    for part in (
        "x differ from the commit",
        "REGISTRY=/",
        "Dockerfile names 0.0.9",
        "differ in new 1.0",
        "no chapter 0.1.0",
    ):
        assert part in str(error.value)


def test_the_files_of_a_commit_are_those_that_were_committed(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git = ("git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "init", "-q", str(clone)], check=True)
    (clone / "kept").write_text("1")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    subprocess.run([*git, "tag", "v1.0.0"], check=True)
    (clone / "kept").write_text("2")
    (clone / "stray").write_text("3")
    found = commit.current(clone)
    assert (found.tags, set(found.changes)) == (("v1.0.0",), {"kept", "stray"})
    exported = commit.export(found.name, tmp_path / "out", clone)
    assert {file.name: file.read_text() for file in exported.iterdir()} == {"kept": "1"}
    with pytest.raises(ReleaseError, match=r"`git archive .*: not a valid object name"):
        commit.export("0123456", tmp_path / "none", clone)


def test_a_folder_that_is_no_clone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="a release is made of a clone"):
        commit.current(tmp_path)


def test_an_archive_depends_on_its_content_only() -> None:
    one = build.packed({"b": b"2", "a": b"1"}, folder="f", time=7)
    assert one == build.packed({"a": b"1", "b": b"2"}, folder="f", time=7)
    assert int.from_bytes(one[4:8], "little") == 7, "gzip's own time"
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one))) as files:
        members = [(file.name, file.mtime, file.mode, file.uid, file.uname) for file in files]
    assert members == [("f/a", 7, 0o644, 0, ""), ("f/b", 7, 0o644, 0, "")]


def test_the_bill_of_materials_names_what_is_shipped_and_is_the_same_each_time() -> None:
    pins = [Pin(name=name, version="1.0", marker="", hashes=()) for name in ("a", "b", "c")]
    record = {
        "a 1.0": PackageEntry(licence="MIT", roles=(Role.OPERATOR,)),
        "b 1.0": PackageEntry(licence="LicenseRef-Unknown", roles=(Role.TORCH,)),
        "c 1.0": PackageEntry(licence="MIT", roles=(Role.DEVELOPMENT,)),
    }
    made = build.bom_document("0.1.0", "abc", 7, pins, record)
    assert made == build.bom_document("0.1.0", "abc", 7, pins, record)
    for part in (
        "pkg:pypi/disttest@0.1.0",
        "pkg:pypi/a@1.0",
        "pkg:pypi/b@1.0",
        '"operator image"',
        "1970-01-01T00:00:07",
    ):
        assert part in made
    assert "pkg:pypi/c@1.0" not in made


def test_what_differs_between_two_builds_is_named(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "same").write_text("x")
        (folder / "changed").write_text(folder.name)
    (one / "lost").write_text("x")
    assert build.different(one, other) == ["changed", "lost"]


def test_a_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    for name in ("cli/disttest_cli/page.html", "runner/disttest_runner/agent/agent.py", "tests/unit/test_x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    wheel = ["disttest_cli/page.html", "tests/unit/test_x.py", "disttest-1.dist-info/RECORD"]
    assert build.wrong_content(wheel, tmp_path) == ["disttest_runner/agent/agent.py", "tests/unit/test_x.py"]


def test_the_command_line_is_installed_from_its_own_list() -> None:
    roles = {key.split()[0]: entry.roles for key, entry in installed.record().items()}
    assert Role.COMMAND_LINE in roles["kubernetes"]
    assert Role.COMMAND_LINE not in roles["torch"]
    assert Role.COMMAND_LINE not in roles["kopf"]
