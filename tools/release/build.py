"""Builds and rehearses a release: the same commit gives the same bytes."""

import filecmp
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from devcluster.machine import processes
from tools import bootstrap
from tools.release import commit, installed, package_licences, version
from tools.release.commit import Commit, ReleaseError
from tools.release.installed import Pin
from tools.release.package_licences import PackageEntry, Record, Role
from tools.release.version import ReleaseImages


def packed(files: Mapping[str, bytes], *, folder: str, time: int) -> bytes:
    """A reproducible .tar.gz: names sorted, one time and owner, nothing of the machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(data.getvalue(), mtime=time)


def bom_document(version: str, commit: str, time: int, pins: Sequence[Pin], record: Record) -> str:
    """A CycloneDX document. The same commit gives the same text: number and time are of the commit."""
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


# Overlays that users do not install: for images on the node, for tests, an example to copy.
NOT_RELEASED = frozenset({"dev", "e2e", "nightly"})
SUMS = "SHA256SUMS"


def checked(source: Path, made_of: Commit, images: ReleaseImages) -> str:
    """The release notes of the commit; raises a ReleaseError with everything that prevents the release."""
    named = version.read_version((source / "pyproject.toml").read_text())
    found = [*commit.problems(made_of, named), *images.problems(), *inconsistent(source, named)]
    try:
        text = version.notes_of((source / "CHANGELOG.md").read_text(), named)
    except ReleaseError as error:
        found.append(str(error))
    if found:
        raise ReleaseError("; ".join(found))
    return text


def inconsistent(source: Path, named: str) -> list[str]:
    """Problems that only another commit can fix."""
    found = version.strays(places(source), named)
    pinned = installed.read_pins((source / "constraints.txt").read_text())
    if lacking := installed.lacking(pinned, installed.record(source)):
        found.append(
            f"tools/release/licences.json and constraints.txt differ in {', '.join(lacking)}: `python -m tools.docs`"
        )
    return found


def places(source: Path) -> dict[str, str]:
    """The files that name a version, by path."""
    files = [file for pattern in version.PLACES for file in sorted(source.glob(pattern))]
    return {str(file.relative_to(source)): file.read_text() for file in files}


def build(source: Path, made_of: Commit, images: ReleaseImages, text: str, place: Path) -> None:
    """Write all files of the release into the empty folder `place`."""
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
    """Build wheel and sdist with the pinned build backend; nothing is downloaded."""
    command = (sys.executable, "-m", "hatchling", "build", "-d", str(place))
    processes.output(*command, directory=source, environment={**os.environ, "SOURCE_DATE_EPOCH": str(made_of.time)})


def _manifests(source: Path, images: ReleaseImages) -> Iterator[tuple[str, str]]:
    """The manifests for `kubectl apply -f`, without kustomize."""
    yield "crds.yaml", _rendered(source / "manifests/crd")
    base = _rendered(source / "manifests/base")
    if lacking := images.lacking(base):
        raise ReleaseError(f"manifests/base names no {' and no '.join(lacking)}")
    yield "install.yaml", images.named(base)
    for overlay in sorted((source / "manifests/overlays").iterdir()):
        if overlay.name in NOT_RELEASED:
            continue
        text = _rendered(overlay)
        # An overlay without the operator is added to an installation.
        kind = "" if images.lacking(text) else "install-"
        yield f"{kind}{overlay.name}.yaml", images.named(text)


def _archives(source: Path, made_of: Commit, named: str) -> Iterator[tuple[str, bytes]]:
    """Archives of the manifests, and of their part for Prometheus and Grafana."""
    for name, folder in (("manifests", "manifests"), ("monitoring", "manifests/monitoring")):
        files = {name: (source / folder / name).read_bytes() for name in _files(source / folder)}
        whole = f"disttest-{name}-{named}"
        yield f"{whole}.tar.gz", packed(files, folder=whole, time=made_of.time)


def _listed(source: Path, made_of: Commit, named: str) -> Mapping[str, bytes]:
    """The requirements, the bill of materials and the licence."""
    pinned = installed.read_pins((source / "constraints.txt").read_text())
    record = installed.record(source)
    client = "".join(pin.lines for pin in pinned if Role.COMMAND_LINE in record[pin.key].roles)
    return {
        "requirements-cli.txt": client.encode(),
        f"disttest-{named}.cdx.json": bom_document(named, made_of.name, made_of.time, pinned, record).encode(),
        "LICENSE": (source / "LICENSE").read_bytes(),
    }


def _rendered(folder: Path) -> str:
    """Render with the kubectl of the tests: another version's kustomize may write other text."""
    command = (sys.executable, "-m", "devcluster", "kubectl", "kustomize", str(folder))
    return processes.output(*command, directory=commit.ROOT, environment=os.environ)


def put(made: Path, place: Path) -> None:
    """Move the release to its place and replace an earlier attempt."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(made, place)


Say = Callable[[str], None]
# Commands of the wheel that need its code, templates and schemas, and a part of their output.
TRIES: tuple[tuple[Sequence[str], str], ...] = (
    (("--version",), "disttest "),
    (("report", "--schema"), '"$schema"'),
    (("plan", "-f", "{source}/manifests/samples/cpu-smoke.yaml"), "kind: Job"),
)
PACKAGES = ("runner/disttest_contract", "runner/disttest_runner", "operator/disttest_operator", "cli/disttest_cli")


def rehearse(say: Say) -> None:
    """Build the commit twice, compare, and install the wheel in an empty environment."""
    made_of = commit.current()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = commit.export(made_of.name, folder / "source")
        other = commit.export(made_of.name, folder / "elsewhere" / "source")
        named = version.read_version((source / "pyproject.toml").read_text())
        if problems := inconsistent(source, named):
            raise ReleaseError("; ".join(problems))
        text = _notes((source / "CHANGELOG.md").read_text(), named)
        images = ReleaseImages(version=named)
        for attempt, place in (("first", source), ("second", other)):
            (folder / attempt).mkdir()
            build(place, made_of, images, text, folder / attempt)
            say(f"{attempt} build: {len(list((folder / attempt).iterdir()))} files of {made_of.name[:12]}")
        if differing := different(folder / "first", folder / "second"):
            raise ReleaseError(f"the same commit gives other bytes the second time: {', '.join(differing)}")
        say("both are the same, byte by byte")
        _try(folder, source, say)
    if made_of.changes:
        say(f"not in it: {len(made_of.changes)} changed files of the clone")


def different(one: Path, other: Path) -> list[str]:
    names = {file.name for folder in (one, other) for file in folder.iterdir()}
    _, changed, missing = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(changed + missing)


def wrong_content(wheel: Iterable[str], source: Path) -> list[str]:
    """Files of our packages that the wheel lacks, and files in it that are not ours."""
    ours = {f"{Path(package).name}/{name}" for package in PACKAGES for name in _files(source / package)}
    return sorted(ours ^ {name for name in wheel if ".dist-info/" not in name})


def _files(folder: Path) -> list[str]:
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]


def _notes(changelog: str, named: str) -> str:
    """The notes of the version, or the unreleased ones before its chapter exists."""
    return version.notes_of(changelog, named if f"\n## {named} " in changelog else version.UNRELEASED)


def _try(folder: Path, source: Path, say: Say) -> None:
    first, environment = folder / "first", folder / "environment"
    (wheel,) = first.glob("*.whl")
    with ZipFile(wheel) as archive:
        if wrong := wrong_content(archive.namelist(), source):
            raise ReleaseError(f"the wheel does not hold exactly the packages: {', '.join(wrong[:9])}")
    uv, python = str(bootstrap.uv()), str(environment / "bin/python")
    subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=first, check=True)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(environment)], check=True)
    install = (uv, "pip", "install", "--require-hashes", "-q", "--python", python)
    environ = os.environ | bootstrap.uv_environment()
    subprocess.run([*install, "-r", str(first / "requirements-cli.txt")], check=True, env=environ)
    subprocess.run([uv, "pip", "install", "--offline", "-q", "--python", python, "--no-deps", str(wheel)], check=True)
    for words, wanted in TRIES:
        arguments = [word.format(source=source) for word in words]
        done = subprocess.run(
            [str(environment / "bin/disttest"), *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode or wanted not in done.stdout:
            raise ReleaseError(f"`disttest {' '.join(words)}` of the wheel: exit code {done.returncode}, {done.stderr}")
    say(f"the wheel, alone: {', '.join('disttest ' + ' '.join(words[:2]) for words, _ in TRIES)}")
