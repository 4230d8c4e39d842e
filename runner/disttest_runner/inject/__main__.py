"""`python -m disttest_runner.inject DIR`: what the runner needs beyond torch, for `python3 DIR` in another image.

Source only: the other Python may be of another version, and the other machine code.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import disttest_contract
from disttest_contract.outcomes import ExitCode

OWN = (Path(disttest_contract.__file__).parent, Path(__file__).parents[1])
# pytest and what it imports; expecttest is what torch's own test files import. py-spy is a program, linked statically.
DISTRIBUTIONS = ("pytest", "iniconfig", "packaging", "pluggy", "pygments", "expecttest", "py-spy")
PROGRAMS = frozenset({"py-spy"})
PROGRAM_DIRECTORY = "bin"
START = "injected.py"  # becomes the directory's __main__.py
READABLE = 0o022  # a umask, since the other container has another user


class UnfitError(Exception):
    """A file of this image cannot be used in another one."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="disttest_runner.inject", description=__doc__)
    parser.add_argument(
        "directory", type=Path, help="Directory for the copy. It is created if missing; earlier copies are replaced"
    )
    directory: Path = parser.parse_args().directory
    os.umask(READABLE)
    try:
        number, size_bytes = copy(directory)
    except (metadata.PackageNotFoundError, UnfitError) as error:
        print(f"the runner cannot be copied from this image: {error}. Use a runner image")
        return ExitCode.CONFIGURATION
    except OSError as error:
        print(f"the runner cannot be copied to {directory}: {error.strerror}")
        return ExitCode.INFRASTRUCTURE
    print(f"copied the runner to {directory}: {number} files, {size_bytes >> 20} MiB")
    return ExitCode.PASSED


def copy(directory: Path) -> tuple[int, int]:
    """Return the numbers of files and bytes copied. A second call completes a partial copy."""
    sizes = []
    for source, place in files_to_copy():
        target = directory / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if place.parent == Path(PROGRAM_DIRECTORY):
            target.chmod(0o755)
        sizes.append(target.stat().st_size)
    return len(sizes), sum(sizes)


def files_to_copy() -> Iterator[tuple[Path, Path]]:
    """Yield every file and its path below the directory."""
    for package in OWN:
        files = sorted(path for path in package.rglob("*") if path.is_file())
        yield from ((path, path.relative_to(package.parent)) for path in files if not is_byte_code(path))
    for name in DISTRIBUTIONS:
        yield from of_distribution(metadata.distribution(name))
    yield Path(__file__).with_name(START), Path("__main__.py")


def of_distribution(distribution: metadata.Distribution) -> Iterator[tuple[Path, Path]]:
    """Include licence and version, leave out scripts that name an interpreter."""
    if not distribution.files:
        raise UnfitError(f"{distribution.name} does not list its files")
    for file in distribution.files:
        source = Path(str(file.locate()))
        if source.name in PROGRAMS and ".." in file.parts:
            yield source, Path(PROGRAM_DIRECTORY, source.name)
        elif source.name.endswith(tuple(EXTENSION_SUFFIXES)):
            raise UnfitError(f"{distribution.name} has native code for this version of Python only ({source.name})")
        elif ".." not in file.parts and not is_byte_code(source):
            yield source, Path(file)


def is_byte_code(path: Path) -> bool:
    return path.suffix == ".pyc"


if __name__ == "__main__":
    sys.exit(main())
