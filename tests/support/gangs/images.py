"""The images of `make images`: what their configuration says, and programs run in them as a strict pod runs them."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from devcluster.imaging import base_image, build_images, buildah, image_registry, namespaced, storage
from devcluster.imaging.build_images import Choice
from devcluster.imaging.buildah import Buildah
from devcluster.imaging.storage import Places
from devcluster.machine import cache, processes
from devcluster.programs import packages
from devcluster.programs.gobuild import Say
from disttest_runner.compat import override
from tests.support.paths import ROOT

# A read-only root, a separate /tmp, a user without a name or permissions, an empty network.
STRICT = r"""
set -eu
store=$1 image=$2
shift 2
container=$(buildah $store from --pull-never "$image")
trap '{ buildah $store umount "$container"; buildah $store rm "$container"; } > /dev/null' EXIT
root=$(buildah $store mount "$container")
mount --bind "$root" "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev"
for device in null urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mount -o remount,bind,ro "$root"
if chroot --userspec=65532:65532 "$root" "$@"; then :; else echo "exit code $?"; fi
"""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    name: str
    where: Places

    def manifest(self) -> dict[str, Any]:
        result = json.loads(self.where.result.read_text())
        return image_registry.manifest(self.where.registry, result[self.name]["digest"])

    def configuration(self) -> dict[str, Any]:
        """What a runtime starts it with."""
        blob = image_registry.blob_path(self.where.registry, self.manifest()["config"]["digest"])
        found: dict[str, Any] = json.loads(blob.read_text())["config"]
        return found

    def size_bytes(self) -> int:
        return sum(self.layer_bytes())

    def layer_bytes(self) -> list[int]:
        return [layer["size"] for layer in self.manifest()["layers"]]

    def files_of_last_layer(self) -> list[str]:
        last = image_registry.blob_path(self.where.registry, self.manifest()["layers"][-1]["digest"])
        listed = subprocess.run(["tar", "-tf", last], capture_output=True, text=True, check=True)
        return [name for name in listed.stdout.splitlines() if not name.endswith("/")]

    def run(self, *command: str) -> str:
        """All that it says; a last line tells an exit code that is not 0. Its environment is the image's alone."""
        variables = self.configuration()["Env"]
        inside = ("/usr/bin/env", "-i", *variables, *command)
        with builder(self.where) as building:
            store = " ".join(buildah.command(self.where, "")[1:-1])
            shell = ("sh", "-c", STRICT, "sh", store, buildah.local(self.name), *inside)
            process = building.surroundings.start(shell, own_network=True)
            return processes.follow(process, f"a command in {self.name}")


@dataclass(frozen=True, slots=True)
class LocalImage(BuiltImage):
    """An image that only buildah's storage has."""

    @override
    def configuration(self) -> dict[str, Any]:
        with builder(self.where) as building:
            written = self.where.temporary / "inspected.json"
            inspect = buildah.command(self.where, "inspect", "--type", "image", buildah.local(self.name))
            building.surroundings.run("sh", "-c", '"$@" > "$0"', str(written), *inspect)
            found: dict[str, Any] = json.loads(written.read_text())["OCIv1"]["config"]
        return found


@contextlib.contextmanager
def builder(where: Places) -> Iterator[Buildah]:
    """buildah with the images of `make images`, which no other process uses meanwhile."""
    with storage.locked(where, lambda _: None) as lock:
        surroundings = namespaced.Surroundings(
            places=where,
            programs=packages.unpacked(lambda _: None),
            lock=lock,
            variables=buildah.environment(where),
        )
        surroundings.prepare()
        found = Buildah(surroundings)
        found.repair()
        yield found


def runner_on(name: str, dockerfile: str, say: Say) -> LocalImage:
    """Build the runner on a base that `dockerfile` describes. The next `make images` removes both."""
    where = Places(cache.images())
    with builder(where) as building:
        folder = where.temporary / name
        folder.mkdir()
        (folder / "Dockerfile").write_text(dockerfile)
        base = buildah.local(f"{name}-base")
        building.build(base, ("--layers",), folder, say)
        arguments = build_images.arguments(
            Choice(runner_base=base),
            "runner",
            python_image=base_image.image(building, say),
            version="0",
            revision="0",
            certificates=build_images.CERTIFICATES if build_images.CERTIFICATES.exists() else None,
        )
        building.build(buildah.local(name), arguments, ROOT, say)
    return LocalImage(name, where)


def all_images() -> Iterator[BuiltImage]:
    """Those that are there."""
    where = Places(cache.images())
    for name in json.loads(where.result.read_text()):
        yield BuiltImage(name, where)


def constraint(package: str) -> str:
    """The version that constraints.txt pins."""
    lines = ROOT.joinpath("constraints.txt").read_text().splitlines()
    return next(line.split()[0].partition("==")[2] for line in lines if line.startswith(f"{package}=="))
