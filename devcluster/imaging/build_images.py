"""`make images`: operator, torch and runner, built and put into the registry's storage."""

import json
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from devcluster.imaging import base_image, buildah, choice, image_registry, namespaced, push
from devcluster.imaging.buildah import Buildah
from devcluster.imaging.choice import Choice
from devcluster.imaging.namespaced import Surroundings
from devcluster.imaging.storage import FIRST_GIB, Places, free_bytes, locked, shortage
from devcluster.machine import cache
from devcluster.machine.errors import DevClusterError
from devcluster.machine.settings import REPOSITORY
from devcluster.programs import packages
from devcluster.programs.kubernetes import Say

Image = Mapping[str, str | int]  # digest, bytes, layers
PROGRAMS = {"unshare": "util-linux", "setpriv": "util-linux", "mount": "mount", "ip": "iproute2"}


def images(wanted: Choice, say: Say) -> None:
    """Afterwards the result names exactly what the registry holds; nothing of ours runs or is mounted."""
    if problems := [*_problems()]:
        raise DevClusterError("; ".join(problems))
    begun = time.monotonic()
    where = Places(cache.images())
    programs = packages.unpacked(say)
    with locked(where, say) as lock:
        surroundings = Surroundings(places=where, programs=programs, lock=lock, variables=buildah.environment(where))
        surroundings.prepare()
        builder = Buildah(surroundings)
        builder.repair()
        _build(wanted, builder, say)
        names = (*choice.targets(wanted), base_image.PAUSE_NAME)
        _push(names, surroundings, say)
        result = _result(where.registry, names)
        _write(where.result, result)
        builder.prune()
        image_registry.collect_garbage(where.registry, names, surroundings.environment())
    _tell(result, time.monotonic() - begun, say)


def _problems() -> Iterable[str]:
    if os.geteuid() != 0:
        yield "images need root: run as root, or with sudo"
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        yield "the kernel has no overlay file system: modprobe overlay"
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=search):
            yield f"{program} is missing: apt-get install {package}"


def _build(wanted: Choice, builder: Buildah, say: Say) -> None:
    where = builder.surroundings.places
    is_first = not builder.has(buildah.local(choice.RUNNER))
    if problem := shortage(free_bytes(where.root), where.root, is_first=is_first):
        raise DevClusterError(problem)
    if is_first:
        say(f"building images into {where.root}: about 6 minutes the first time, {FIRST_GIB} GiB meanwhile")
    python_image = wanted.python_image or base_image.image(builder, say)
    certificates = choice.CERTIFICATES if choice.CERTIFICATES.exists() else None
    for name, target in choice.targets(wanted).items():
        begun = time.monotonic()
        arguments = choice.arguments(
            wanted,
            target,
            python_image=python_image,
            version=_version(),
            revision=_revision(),
            certificates=certificates,
        )
        builder.build(buildah.local(name), arguments, REPOSITORY, say)
        say(f"built {name} in {time.monotonic() - begun:.0f} s")
    base_image.build_pause(builder, python_image, say)


def _version() -> str:
    found = re.search(r'^version = "(.+)"', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def _revision() -> str:
    """Of the clone, as far as it is one."""
    try:
        git = ("git", "-C", str(REPOSITORY), "--no-optional-locks")
        changed = namespaced.output(*git, "status", "--porcelain")
        return namespaced.output(*git, "rev-parse", "HEAD").strip() + ("-changed" if changed else "")
    except DevClusterError:
        return "unknown"


def _push(names: Iterable[str], surroundings: Surroundings, say: Say) -> None:
    progress = namespaced.BuildProgress("starting a registry", say)
    module = (sys.executable, "-m", push.__name__, str(surroundings.places.root), *names)

    def read(line: str) -> None:
        progress.what = line or progress.what

    done, told = namespaced.follow(surroundings.start(module, own_network=True), read, progress.beat)
    if done:
        raise DevClusterError(f"the images could not be put into the registry's storage:\n{told}")


def _result(storage: Path, names: Iterable[str]) -> dict[str, Image]:
    found: dict[str, Image] = {}
    for name in names:
        digest = image_registry.digest_of(storage, name)
        layers = image_registry.manifest(storage, digest)["layers"]
        found[name] = {"digest": digest, "bytes": sum(layer["size"] for layer in layers), "layers": len(layers)}
    return found


def _write(file: Path, result: Mapping[str, Image]) -> None:
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(result, indent=2) + "\n")
    partial.rename(file)


def _tell(result: Mapping[str, Image], seconds: float, say: Say) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for name, image in result.items():
        say(f"{name}: {int(image['bytes']) / 1e6:,.0f} MB in {image['layers']} layers, {image['digest']}")
    say(f"images are ready after {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU s")
