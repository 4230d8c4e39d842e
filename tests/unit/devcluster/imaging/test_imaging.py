import argparse
from pathlib import Path

import pytest

from devcluster.imaging import base_image, build_images, buildah, image_registry, storage
from devcluster.imaging.build_images import Choice
from devcluster.machine.settings import DevClusterError


def parsed(*arguments: str) -> Choice:
    parser = argparse.ArgumentParser()
    build_images.add_options(parser)
    return build_images.parse(parser.parse_args(arguments))


def build_arguments(wanted: Choice, certificates: Path | None = None) -> list[str]:
    return list(
        build_images.arguments(
            wanted, "runner", python_image="base:1", version="1.0", revision="abc", certificates=certificates
        )
    )


def test_without_options_all_three_images_are_made_from_plain_python() -> None:
    assert build_images.targets(parsed()) == {
        "disttest-operator": "operator",
        "disttest-torch": "torch",
        "disttest-runner": "runner",
    }
    assert {"--build-arg=PYTHON_IMAGE=base:1", "--build-arg=RUNNER_BASE=torch"} < set(build_arguments(parsed()))


def test_on_a_cuda_image_no_torch_is_installed() -> None:
    wanted = parsed("--runner-base", "pytorch/pytorch:cuda")
    assert list(build_images.targets(wanted)) == ["disttest-operator", "disttest-runner"]
    assert "--build-arg=RUNNER_BASE=pytorch/pytorch:cuda" in build_arguments(wanted)


def test_upstream_is_always_named_because_buildah_finds_no_stage_by_a_default() -> None:
    assert "--build-arg=UPSTREAM=upstream-none" in build_arguments(parsed())
    assert "--build-arg=UPSTREAM=upstream-git" in build_arguments(parsed("--upstream", "git"))


def test_a_clone_of_torch_is_a_build_context(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_text("0123\n")
    (tmp_path / "version.txt").write_text("2.13.0\n")
    arguments = build_arguments(parsed("--upstream", str(tmp_path)))
    assert "--build-arg=UPSTREAM=upstream-checkout" in arguments
    assert arguments[arguments.index("--build-context") + 1] == f"pytorch={tmp_path}"


def test_a_directory_that_is_no_clone_of_torch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match=r"has no test, version\.txt, \.git/HEAD: give a clone of torch"):
        parsed("--upstream", str(tmp_path))


def test_a_build_argument_without_a_value_is_refused() -> None:
    with pytest.raises(DevClusterError, match="--build-arg VERSION: write NAME=VALUE"):
        parsed("--build-arg", "VERSION")


def test_certificates_are_a_secret_of_the_build_where_the_machine_has_any() -> None:
    assert "--secret" not in build_arguments(parsed())
    arguments = build_arguments(parsed(), certificates=Path("/etc/ca.crt"))
    assert arguments[arguments.index("--secret") + 1] == "id=ca,src=/etc/ca.crt"


@pytest.mark.parametrize(
    ("free_gib", "is_first", "has_room"),
    [
        pytest.param(storage.FIRST_GIB, True, True, id="enough for the first build"),
        pytest.param(storage.FIRST_GIB - 1, True, False, id="too little for the first build"),
        pytest.param(storage.FIRST_GIB - 1, False, True, id="enough for later ones"),
        pytest.param(1, False, False, id="too little for any"),
    ],
)
def test_a_build_requires_free_disk_space(free_gib: int, *, is_first: bool, has_room: bool) -> None:
    assert (storage.shortage(free_gib * storage.GIB, Path("/cache"), is_first=is_first) == "") is has_room


def test_too_little_disk_space_is_one_line_with_numbers_and_remedy() -> None:
    said = storage.shortage(3 * storage.GIB, Path("/cache/images"), is_first=True)
    assert said == (
        f"the first build of the images needs {storage.FIRST_GIB} GiB in /cache/images, 3.0 GiB are free: "
        "free disk space, or set DISTTEST_CACHE to another directory"
    )


def test_only_the_distribution_s_own_sources_of_this_release_are_used() -> None:
    listed = (
        "Debian|http://mirror/debian/|bookworm|main\n"
        "Debian|http://mirror/debian-security/|bookworm-security|main\n"
        "Debian|http://mirror/debian/|trixie|main\n"
        "Docker|https://download.example/|bookworm|stable\n"
        "Debian|http://mirror/debian/|bookworm|contrib\n"
    )
    assert base_image.sources(listed, "bookworm") == (
        "deb http://mirror/debian/ bookworm contrib main",
        "deb http://mirror/debian-security/ bookworm-security main",
    )


def test_a_registry_without_an_image_has_no_digest_of_it(tmp_path: Path) -> None:
    assert image_registry.digest_of(tmp_path, "disttest-runner") == ""


def test_a_blob_has_the_path_that_registries_use(tmp_path: Path) -> None:
    assert (
        image_registry.blob_path(tmp_path, "sha256:abcd") == tmp_path / "docker/registry/v2/blobs/sha256/ab/abcd/data"
    )


def test_progress_shows_what_a_step_does_and_not_how_it_begins() -> None:
    instruction = (
        "RUN --mount=type=secret,id=ca     if [ -e /run/secrets/ca ]; then export A=b; fi  && pip install    --quiet uv"
    )
    assert buildah.shown(instruction) == "RUN pip install --quiet uv"


def test_progress_does_not_show_how_uv_comes_into_a_foreign_image() -> None:
    instruction = (
        "RUN pip install --quiet --target /tmp/uv --require-hashes       -r /opt/requirements/installer.txt  "
        "&& /tmp/uv/bin/uv pip install torch"
    )
    assert buildah.shown(instruction) == "RUN /tmp/uv/bin/uv pip install torch"
