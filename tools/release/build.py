"""Makes the files of a release out of a commit: the same commit gives the same bytes."""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tools.release import commit, installed, package_licences, version
from tools.release.commit import Commit, ReleaseError
from tools.release.installed import Pin
from tools.release.package_licences import PackageEntry, Record, Role
from tools.release.version import ReleaseImages


def packed(files: Mapping[str, bytes], *, folder: str, time: int) -> bytes:
    """A .tar.gz: names sorted, all of one time and owner, nothing of the machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(data.getvalue(), mtime=time)


def bom_document(version: str, commit: str, time: int, pins: Sequence[Pin], record: Record) -> str:
    """CycloneDX. The same commit gives the same text: number and time are of the commit."""
    root = Component(
        type=ComponentType.APPLICATION,
        name="disttest",
        version=version,
        purl=PackageURL("pypi", None, "disttest", version),
        bom_ref=f"disttest@{version}",
        licenses=[LicenseExpression("Apache-2.0")],
        properties=[Property(name="disttest:commit", value=commit)],
    )
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"disttest/{version}/{commit}"))
    bom.metadata.timestamp = datetime.fromtimestamp(time, tz=UTC)
    bom.metadata.component = root
    parts = [_component(pin, record[pin.key]) for pin in pins if record[pin.key].roles != (Role.DEVELOPMENT,)]
    bom.components.update(parts)
    bom.register_dependency(root, parts)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _component(pin: Pin, entry: PackageEntry) -> Component:
    known = entry.licence != package_licences.UNKNOWN
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        purl=PackageURL("pypi", None, pin.name, pin.version),
        bom_ref=f"{pin.name}@{pin.version}",
        licenses=[LicenseExpression(entry.licence)] if known else [],
        properties=[Property(name="disttest:role", value=role) for role in entry.roles],
    )


# Overlays that are no installation of somebody else's: for images on the node, for tests, an example to copy.
NOT_RELEASED = frozenset({"dev", "e2e", "nightly"})
SUMS = "SHA256SUMS"


def checked(source: Path, made_of: Commit, images: ReleaseImages) -> str:
    """The notes. Whatever speaks against a release of this commit is said at once."""
    named = version.of((source / "pyproject.toml").read_text())
    found = [*commit.problems(made_of, named), *images.problems(), *inconsistent(source, named)]
    try:
        text = version.notes_of((source / "CHANGELOG.md").read_text(), named)
    except ReleaseError as error:
        found.append(str(error))
    if found:
        raise ReleaseError("; ".join(found))
    return text


def inconsistent(source: Path, named: str) -> list[str]:
    """What a commit itself would have to mend."""
    found = version.strays(places(source), named)
    pinned = installed.read_pins((source / "constraints.txt").read_text())
    if lacking := installed.lacking(pinned, installed.record(source)):
        found.append(
            f"tools/release/licences.json and constraints.txt differ in {', '.join(lacking)}: `python -m tools.docs`"
        )
    return found


def places(source: Path) -> dict[str, str]:
    """The files that name a version."""
    files = [file for pattern in version.PLACES for file in sorted(source.glob(pattern))]
    return {str(file.relative_to(source)): file.read_text() for file in files}


def build(source: Path, made_of: Commit, images: ReleaseImages, text: str, place: Path) -> None:
    """Everything, into an empty folder."""
    _distributions(source, made_of, place)
    made = {
        "RELEASE-NOTES.md": f"# DistTest {images.version}\n\n{text}".encode(),
        **{name: content.encode() for name, content in _manifests(source, images)},
        **dict(_archives(source, made_of, images.version)),
        **_listed(source, made_of, images.version),
    }
    for name, content in made.items():
        (place / name).write_bytes(content)
    files = sorted(file for file in place.iterdir() if file.is_file())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (place / SUMS).write_text("".join(sums))


def _distributions(source: Path, made_of: Commit, place: Path) -> None:
    """Wheel and sdist, by the build backend that is pinned for this environment: nothing is fetched."""
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(place)], source, SOURCE_DATE_EPOCH=str(made_of.time))


def _manifests(source: Path, images: ReleaseImages) -> Iterator[tuple[str, str]]:
    """What `kubectl apply -f` takes, without kustomize."""
    yield "crds.yaml", _rendered(source / "manifests/crd")
    base = _rendered(source / "manifests/base")
    if lacking := images.lacking(base):
        raise ReleaseError(f"manifests/base names no {' and no '.join(lacking)}")
    yield "install.yaml", images.named(base)
    for overlay in sorted((source / "manifests/overlays").iterdir()):
        if overlay.name in NOT_RELEASED:
            continue
        text = _rendered(overlay)
        # What does not bring the operator is added to an installation.
        kind = "" if images.lacking(text) else "install-"
        yield f"{kind}{overlay.name}.yaml", images.named(text)


def _archives(source: Path, made_of: Commit, named: str) -> Iterator[tuple[str, bytes]]:
    """For kustomize the manifests as they are; for a Prometheus and a Grafana without it their part."""
    for name, folder in (("manifests", "manifests"), ("monitoring", "manifests/monitoring")):
        files = {
            str(file.relative_to(source / folder)): file.read_bytes()
            for file in (source / folder).rglob("*")
            if file.is_file()
        }
        whole = f"disttest-{name}-{named}"
        yield f"{whole}.tar.gz", packed(files, folder=whole, time=made_of.time)


def _listed(source: Path, made_of: Commit, named: str) -> Mapping[str, bytes]:
    """What is installed beside it."""
    pinned = installed.read_pins((source / "constraints.txt").read_text())
    record = installed.record(source)
    client = installed.chosen_pins(pinned, lambda pin: Role.COMMAND_LINE in record[pin.key].roles)
    return {
        "requirements-cli.txt": client.encode(),
        f"disttest-{named}.cdx.json": bom_document(named, made_of.name, made_of.time, pinned, record).encode(),
        "LICENSE": (source / "LICENSE").read_bytes(),
    }


def _rendered(folder: Path) -> str:
    """By the kubectl that tests use: another one's kustomize may write the same otherwise."""
    return _run([sys.executable, "-m", "devcluster", "kubectl", "kustomize", str(folder)], commit.ROOT)


def _run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"`{' '.join(command)}` ended with exit code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def put(made: Path, place: Path) -> None:
    """In the place of an earlier attempt."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, place)
