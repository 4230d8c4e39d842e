"""What `make images` builds, as its user chose."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.machine.errors import DevClusterError

OPERATOR, TORCH, RUNNER = "disttest-operator", "disttest-torch", "disttest-runner"
TORCH_STAGE = "torch"  # of the Dockerfile: plain Python with torch from PyPI
CHECKOUT = "pytorch"  # what the Dockerfile calls a clone of torch
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    python_image: str = ""
    """Empty: a stand-in made of this machine's Debian packages."""
    runner_base: str = TORCH_STAGE
    upstream: str = ""
    """Empty, `git`, or the directory of a clone."""
    build_arguments: tuple[str, ...] = ()


def add_options(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--python-image", default="", metavar="IMAGE", help="base of all; default: made of Debian packages")
    option("--runner-base", default="", metavar="IMAGE", help="a CUDA PyTorch image; default: torch from PyPI")
    option("--upstream", default="", metavar="git|DIR", help="torch's own tests into /opt/pytorch; default: none")
    option("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="further arguments of the Dockerfile")


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
    """Stages of the Dockerfile by the name of their image, in the order of building."""
    torch = {TORCH: TORCH_STAGE} if choice.runner_base == TORCH_STAGE else {}
    return {OPERATOR: "operator", **torch, RUNNER: "runner"}


def arguments(
    choice: Choice, target: str, *, python_image: str, version: str, revision: str, certificates: Path | None
) -> Sequence[str]:
    """Of `buildah build`. UPSTREAM is always given: by its default alone buildah would not find the stage."""
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
