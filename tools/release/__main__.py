"""python -m tools.release {version,notes,build,audit,rehearse}: see --help."""

import argparse
import sys
import tempfile
from pathlib import Path

from devcluster.machine.settings import DevClusterError
from tools.release import audit, build, commit, version
from tools.release.commit import ReleaseError
from tools.release.version import ReleaseImages


def main() -> int:
    """Run a command; exit code 1 and one line for each objection."""
    asked = _parser().parse_args()
    try:
        match asked.command:
            case "version":
                _version(asked.new)
            case "notes":
                print(version.notes_of((commit.ROOT / "CHANGELOG.md").read_text(), asked.version), end="")
            case "build":
                _build(asked)
            case "audit":
                return audit.audit(_say, asked.osv_url)
            case _:
                build.rehearse(_say)
    except (DevClusterError, ReleaseError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


def _version(new: str | None) -> None:
    files = build.places(commit.ROOT)
    if new is None:
        print(version.read_version(files["pyproject.toml"]))
        return
    for name, text in version.changed(files, new).items():
        (commit.ROOT / name).write_text(text)
        _say(f"{name} names {new}")


def _build(asked: argparse.Namespace) -> None:
    made_of = commit.current()
    with tempfile.TemporaryDirectory() as name:
        source = commit.export(made_of.name, Path(name) / "source")
        named = version.read_version((source / "pyproject.toml").read_text())
        images = ReleaseImages(
            version=named,
            registry=asked.registry,
            operator_digest=asked.operator_digest,
            runner_digest=asked.runner_digest,
        )
        text = build.checked(source, made_of, images)
        made = Path(name) / "made"
        made.mkdir()
        build.build(source, made_of, images, text, made)
        place = commit.ROOT / "dist" / named
        build.put(made, place)
    _say(f"{place.relative_to(commit.ROOT)} is {named} of {made_of.name}:")
    for file in sorted(place.iterdir()):
        print(f"  {file.stat().st_size:9,} {file.name}")
    if not asked.registry:
        _say("its manifests name images without a registry. Load them on the nodes, or set REGISTRY=…")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Manage versions and build releases.")
    commands = parser.add_subparsers(dest="command", required=True)
    named = commands.add_parser("version", help="Print the version, or set it to NEW in all files")
    named.add_argument("new", nargs="?")
    notes = commands.add_parser("notes", help="Print the section of a version in CHANGELOG.md")
    notes.add_argument("version")
    built = commands.add_parser("build", help="Build the release files of this commit in dist/VERSION")
    built.add_argument("--registry", default="", help="Registry of the images, without image names")
    built.add_argument("--operator-digest", default="", help="Digest of the operator image: sha256:…")
    built.add_argument("--runner-digest", default="", help="Digest of the runner image: sha256:…")
    audited = commands.add_parser(
        "audit",
        help="Check pinned packages for known vulnerabilities (exit code 1: found, 3: not everything was checked)",
    )
    audited.add_argument("--osv-url", default="", help="Use only this OSV-compatible database")
    commands.add_parser("rehearse", help="Build twice, compare, and test the wheel in an empty environment")
    return parser


def _say(text: str) -> None:
    print(f"release: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
