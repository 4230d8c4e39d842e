"""buildah with its storage and settings in the cache: nothing of it is in /etc, /run or /var."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.imaging import image_registry
from devcluster.imaging.namespaced import BuildProgress, Surroundings
from devcluster.imaging.storage import Places, empty
from devcluster.machine import processes
from devcluster.programs.gobuild import Say

MADE = re.compile(r"--> (?:Using cache )?([0-9a-f]{11,64})")
STEP = re.compile(r"((?:\[\d+/\d+\] )?STEP \d+/\d+): (.*)")
# The beginning of steps that need certificates or uv, which does not describe them.
PREAMBLE = re.compile(r"--mount=\S+ +|if \[ -e /run/secrets/ca \].*?; fi +&& |pip install [^&]*installer\.txt +&& ")
SHOWN = 100


def configuration(places: Places) -> Mapping[str, str]:
    """Return the text of each file in the settings folder."""
    return {
        "policy.json": json.dumps({"default": [{"type": "insecureAcceptAnything"}]}),
        "registries.conf": 'unqualified-search-registries = ["docker.io"]\n',  # as Docker understands short names
        "storage.conf": '[storage]\ndriver = "overlay"\n',
        # Each build creates this folder, by default /etc/cni/net.d.
        "containers.conf": f'[network]\nnetwork_config_dir = "{places.settings / "networks"}"\n',
    }


def environment(places: Places) -> Mapping[str, str]:
    return {
        "CONTAINERS_CONF": str(places.settings / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(places.settings / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(places.settings / "registries.conf"),
        "BUILDAH_ISOLATION": "chroot",
    }


def command(places: Places, verb: str, *arguments: str) -> tuple[str, ...]:
    folders = ("--root", str(places.storage), "--runroot", str(places.run), "--storage-driver", "overlay")
    policy = ("--signature-policy", str(places.settings / "policy.json")) if verb in ("build", "push") else ()
    return ("buildah", *folders, verb, *policy, *arguments)


def local(name: str) -> str:
    return f"localhost/{name}:{image_registry.TAG}"


def shown(instruction: str) -> str:
    """Return the beginning of the instruction, without its preamble."""
    return " ".join(PREAMBLE.sub("", instruction).split())[:SHOWN]


@dataclass(frozen=True, slots=True)
class Buildah:
    surroundings: Surroundings
    seen: set[str] = field(default_factory=set)
    """Beginnings of the ids of images that a build made or found in its cache."""

    def repair(self) -> None:
        """Remove what an interrupted build leaves: working containers, partial layers, records of old mounts."""
        places = self.surroundings.places
        for folder in (places.run, places.temporary):
            empty(folder)
        for name, text in configuration(places).items():
            (places.settings / name).write_text(text)
        self.run("rm", "--all")

    def run(self, verb: str, *arguments: str) -> str:
        return self.surroundings.run(*command(self.surroundings.places, verb, *arguments))

    def has(self, image: str) -> bool:
        return image in self.run("images", "--format", "{{.Name}}:{{.Tag}}").split()

    def build(self, tag: str, arguments: Sequence[str], context: Path, say: Say) -> None:
        progress = BuildProgress(f"{tag}: beginning", say)

        def read(line: str) -> None:
            if made := MADE.match(line):
                self.seen.add(made[1])
            if step := STEP.match(line):
                progress.what = f"{tag}: {step[1].lower()}, {shown(step[2])}"

        whole = ("--network", "host", "--tag", tag, *arguments, str(context))
        process = self.surroundings.start(command(self.surroundings.places, "build", *whole))
        processes.follow(process, f"building {tag}", read, progress.beat)

    def prune(self) -> None:
        """Remove images that the builds of this process neither made nor used."""
        if stale := [image for image in self._images("--all") if not self._was_seen(image)]:
            self.run("rmi", "--force", *stale)

    def keep(self, image: str) -> None:
        self.seen.update(found.removeprefix("sha256:") for found in self._images(image))

    def _images(self, which: str) -> list[str]:
        return sorted(set(self.run("images", "--quiet", "--no-trunc", which).split()))

    def _was_seen(self, image: str) -> bool:
        return any(image.removeprefix("sha256:").startswith(beginning) for beginning in self.seen)
