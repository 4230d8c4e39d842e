"""Images, as the command line names them: NAME=DIRECTORY, and NAME:KEY=VALUE for its environment."""

from collections.abc import Sequence
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.settings import Image


def parse(places: Sequence[str], variables: Sequence[str]) -> tuple[Image, ...]:
    directories: dict[str, str] = {}
    environments: dict[str, dict[str, str]] = {}
    for place in places:
        name, equals, directory = place.partition("=")
        if not (name and equals and Path(directory).is_dir()):
            raise ClusterError(f"--image {place}: write NAME=DIR, where DIR is a directory")
        directories[name] = str(Path(directory).absolute())  # not resolved: a venv is where its symlink says
        environments[name] = {}
    for variable in variables:
        image, assignment = _image_of(variable, directories)
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise ClusterError(f"--image-env {variable}: write NAME:KEY=VALUE")
        environments[image][key] = value
    return tuple(Image(name=name, directory=place, env=environments[name]) for name, place in directories.items())


def _image_of(variable: str, known: dict[str, str]) -> tuple[str, str]:
    """Splits at the right colon: names of images hold some too."""
    for name in known:
        if variable.startswith(f"{name}:"):
            return name, variable.removeprefix(f"{name}:")
    raise ClusterError(f"--image-env {variable}: no --image of that name; given: {', '.join(known) or 'none'}")
