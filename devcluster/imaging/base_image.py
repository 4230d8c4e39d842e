"""A stand-in for python:3-slim made of Debian packages, for machines that reach no registry.

Debian's own Python with pip, no compiler, `python` on PATH, and free to install into, as in Docker's image.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from devcluster.imaging import namespaced
from devcluster.imaging.buildah import Buildah, local
from devcluster.machine import processes
from devcluster.machine.settings import DevClusterError
from devcluster.programs.gobuild import Say

PACKAGES = "ca-certificates,python3,python3-pip"
NAME = "localhost/disttest-python"
VENDORS = ("Debian", "Ubuntu")
WITHOUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*")
# Docker's image has Python's headers, which inductor compiles against; Debian's package of them asks for a compiler's.
HOOK = """\
#!/bin/sh
set -eu
ln -s python3 "$1/usr/bin/python"
rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED
chroot "$1" sh -c '
  cd /tmp
  apt-get download -q "lib$(readlink /usr/bin/python3)-dev"
  for package in *.deb; do dpkg-deb --fsys-tarfile "$package" | tar -C / -x ./usr/include; done
  rm -- *.deb'
"""
DOCKERFILE = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""


def sources(listed: str, codename: str) -> tuple[str, ...]:
    """Select the distribution's sources of this release from apt's index targets; return one `deb` line each."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in listed.splitlines():
        origin, address, suite, component = line.split("|")
        if origin in VENDORS and (suite == codename or suite.startswith(f"{codename}-")):
            found.setdefault((address, suite), []).append(component)
    return tuple(f"deb {address} {suite} {' '.join(sorted(set(parts)))}" for (address, suite), parts in found.items())


def key(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def image(buildah: Buildah, say: Say) -> str:
    """Return the image's name; the first call builds it (a minute, 200 MB)."""
    codename = _codename()
    listed = processes.output(
        "apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)", "Created-By: Packages"
    )
    lines = sources(listed, codename)
    if not lines:
        raise DevClusterError(f"apt has no packages of {codename}. Run apt-get update and try again")
    name = f"{NAME}:{codename}-{key((PACKAGES, HOOK, DOCKERFILE, *WITHOUT, *lines))}"
    if not buildah.has(name):
        _make(name, codename, lines, buildah=buildah, say=say)
    buildah.keep(name)
    return name


def _codename() -> str:
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)', Path("/etc/os-release").read_text(), re.MULTILINE)
    if not found:
        raise DevClusterError("/etc/os-release names no release of Debian. Set a base image with PYTHON_IMAGE=...")
    return found[1]


def _make(name: str, codename: str, lines: tuple[str, ...], *, buildah: Buildah, say: Say) -> None:
    folder = buildah.surroundings.places.temporary / "base"
    folder.mkdir()
    hook = folder / "hook"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    options = ["--mode=root", "--variant=minbase", f"--include={PACKAGES}", f"--customize-hook={hook}"]
    options += [f"--dpkgopt=path-exclude={pattern}" for pattern in WITHOUT]
    progress = namespaced.BuildProgress(f"{name}: packages of {codename}", say)
    process = buildah.surroundings.start(("mmdebstrap", *options, codename, str(folder / "base.tar"), *lines))
    processes.follow(process, "mmdebstrap", beat=progress.beat)
    buildah.build(name, (), folder, say)


PAUSE_NAME = "pause"
PAUSE_DOCKERFILE = """\
FROM {base}
USER 65532:65532
ENTRYPOINT ["sleep", "infinity"]
CMD []
"""


def build_pause(builder: Buildah, base: str, say: Say) -> None:
    """Build the pause image, which adds no layer to `base`."""
    folder = builder.surroundings.places.temporary / PAUSE_NAME
    folder.mkdir()
    (folder / "Dockerfile").write_text(PAUSE_DOCKERFILE.format(base=base))
    builder.build(local(PAUSE_NAME), ("--layers",), folder, say)
