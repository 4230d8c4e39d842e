"""`make images`: operator, torch and runner, built as the user chose and put into the registry's storage.

python -m devcluster.imaging.build_images ROOT IMAGE...      (pushes images; `images` starts it in its namespaces)
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.imaging import base_image, buildah, image_registry, namespaced
from devcluster.imaging.buildah import Buildah
from devcluster.imaging.namespaced import Surroundings
from devcluster.imaging.storage import FIRST_GIB, Places, free_bytes, locked, shortage
from devcluster.machine import cache, processes
from devcluster.machine.settings import REPOSITORY, DevClusterError
from devcluster.programs import packages
from devcluster.programs.gobuild import Say

Image = Mapping[str, str | int]  # digest, bytes, layers
PROGRAMS = {"unshare": "util-linux", "setpriv": "util-linux", "mount": "mount", "ip": "iproute2"}
OPERATOR, TORCH, RUNNER = "disttest-operator", "disttest-torch", "disttest-runner"
TORCH_STAGE = "torch"  # of the Dockerfile: plain Python with torch from PyPI
CHECKOUT = "pytorch"  # what the Dockerfile calls a clone of torch
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
ADDRESS, PORT = "127.0.0.1", 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    python_image: str = ""  # if empty, an image made of this machine's Debian packages
    runner_base: str = TORCH_STAGE
    upstream: str = ""  # empty, `git`, or the directory of a clone
    build_arguments: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "--python-image",
        default="",
        metavar="IMAGE",
        help="Base image of all images (default: built from Debian packages)",
    )
    option(
        "--runner-base",
        default="",
        metavar="IMAGE",
        help="PyTorch image with CUDA for the runner (default: torch from PyPI)",
    )
    option("--upstream", default="", metavar="git|DIR", help="Source of torch's tests in /opt/pytorch (default: none)")
    option("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="Build argument of the Dockerfile")


def parse(options: argparse.Namespace) -> Choice:
    for argument in options.build_arg:
        if not re.match(r"[A-Z_]+=", argument):
            raise DevClusterError(f"--build-arg {argument}: write NAME=VALUE")
    upstream = options.upstream
    if upstream not in ("", "git"):
        upstream = str(Path(upstream).absolute())
        if missing := [name for name in ("test", "version.txt", ".git/HEAD") if not Path(upstream, name).exists()]:
            raise DevClusterError(f"{upstream} has no {', '.join(missing)}: give a clone of torch, `git` or nothing")
    return Choice(
        python_image=options.python_image,
        runner_base=options.runner_base or TORCH_STAGE,
        upstream=upstream,
        build_arguments=tuple(options.build_arg),
    )


def targets(choice: Choice) -> dict[str, str]:
    """Return stages of the Dockerfile by the name of their image, in the order of building."""
    torch = {TORCH: TORCH_STAGE} if choice.runner_base == TORCH_STAGE else {}
    return {OPERATOR: "operator", **torch, RUNNER: "runner"}


def arguments(
    choice: Choice, target: str, *, python_image: str, version: str, revision: str, certificates: Path | None
) -> Sequence[str]:
    """Return arguments of `buildah build`, always with UPSTREAM: buildah does not find the stage by its default."""
    values = {"PYTHON_IMAGE": python_image, "RUNNER_BASE": choice.runner_base, "VERSION": version}
    values |= {"REVISION": revision, "UPSTREAM": "upstream-none"}
    further: list[str] = []
    if choice.upstream == "git":
        values["UPSTREAM"] = "upstream-git"
    elif choice.upstream:
        values["UPSTREAM"] = "upstream-checkout"
        further += ["--build-context", f"{CHECKOUT}={choice.upstream}"]
    if certificates:
        further += ["--secret", f"id=ca,src={certificates}"]
    given = [*(f"{name}={value}" for name, value in values.items()), *choice.build_arguments]
    return ("--layers", "--target", target, *(f"--build-arg={argument}" for argument in given), *further)


def images(wanted: Choice, say: Say) -> None:
    """Build the images, push them, and write a result that names exactly the registry's images."""
    if problems := [*_problems()]:
        raise DevClusterError("; ".join(problems))
    started = time.monotonic()
    where = Places(cache.images())
    programs = packages.unpacked(say)
    with locked(where, say) as lock:
        surroundings = Surroundings(places=where, programs=programs, lock=lock, variables=buildah.environment(where))
        surroundings.prepare()
        builder = Buildah(surroundings)
        builder.repair()
        _build(wanted, builder, say)
        names = (*targets(wanted), base_image.PAUSE_NAME)
        _push(names, surroundings, say)
        result = _result(where.registry, names)
        partial = where.result.with_suffix(".part")
        partial.write_text(json.dumps(result, indent=2) + "\n")
        partial.rename(where.result)
        builder.prune()
        image_registry.collect_garbage(where.registry, names, surroundings.environment())
    _print_result(result, time.monotonic() - started, say)


def _problems() -> Iterable[str]:
    if os.geteuid() != 0:
        yield "images need root: run as root, or with sudo"
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        yield "the kernel has no overlay file system: modprobe overlay"
    for program, package in PROGRAMS.items():
        if not shutil.which(program, path=processes.search_path()):
            yield f"{program} is missing: apt-get install {package}"


def _build(wanted: Choice, builder: Buildah, say: Say) -> None:
    where = builder.surroundings.places
    is_first = not builder.has(buildah.local(RUNNER))
    if problem := shortage(free_bytes(where.root), where.root, is_first=is_first):
        raise DevClusterError(problem)
    if is_first:
        say(f"building images into {where.root}: about 6 minutes the first time, {FIRST_GIB} GiB meanwhile")
    python_image = wanted.python_image or base_image.image(builder, say)
    certificates = CERTIFICATES if CERTIFICATES.exists() else None
    for name, target in targets(wanted).items():
        started = time.monotonic()
        build_arguments = arguments(
            wanted,
            target,
            python_image=python_image,
            version=_version(),
            revision=_revision(),
            certificates=certificates,
        )
        builder.build(buildah.local(name), build_arguments, REPOSITORY, say)
        say(f"built {name} in {time.monotonic() - started:.0f} s")
    base_image.build_pause(builder, python_image, say)


def _version() -> str:
    found = re.search(r'^version = "(.+)"', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"


def _revision() -> str:
    """Return the clone's commit; `unknown` outside of a clone."""
    try:
        git = ("git", "-C", str(REPOSITORY), "--no-optional-locks")
        changed = processes.output(*git, "status", "--porcelain")
        return processes.output(*git, "rev-parse", "HEAD").strip() + ("-changed" if changed else "")
    except DevClusterError:
        return "unknown"


def _push(names: Iterable[str], surroundings: Surroundings, say: Say) -> None:
    progress = namespaced.BuildProgress("starting a registry", say)
    module = (sys.executable, "-m", "devcluster.imaging.build_images", str(surroundings.places.root), *names)

    def read(line: str) -> None:
        progress.what = line or progress.what

    process = surroundings.start(module, own_network=True)
    processes.follow(process, "putting the images into the registry's storage", read, progress.beat)


def _result(storage: Path, names: Iterable[str]) -> dict[str, Image]:
    found: dict[str, Image] = {}
    for name in names:
        digest = image_registry.digest_of(storage, name)
        layers = image_registry.manifest(storage, digest)["layers"]
        found[name] = {"digest": digest, "bytes": sum(layer["size"] for layer in layers), "layers": len(layers)}
    return found


def _print_result(result: Mapping[str, Image], seconds: float, say: Say) -> None:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for name, image in result.items():
        say(f"{name}: {int(image['bytes']) / 1e6:,.0f} MB in {image['layers']} layers, {image['digest']}")
    say(f"images are ready after {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} CPU s")


def push(root: Path, names: Sequence[str]) -> None:
    """Push images to a registry in this network, which nothing else on the machine can reach.

    buildah could write to plain directories, but each layer again: only for registries it knows which layers they have.
    """
    places = Places(root)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    serving = image_registry.serve(places.registry, ADDRESS, PORT, environment=os.environ)
    options = ("--quiet", "--compression-level", "1", "--format", "oci", "--tls-verify=false")
    for name in names:
        print(f"pushing {name}", flush=True)
        there = f"docker://{ADDRESS}:{PORT}/{name}:{image_registry.TAG}"
        subprocess.run(buildah.command(places, "push", *options, buildah.local(name), there), check=True)
    serving.terminate()
    serving.wait()


if __name__ == "__main__":
    try:
        push(Path(sys.argv[1]), sys.argv[2:])
    except (DevClusterError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
