"""The image of the container that holds a pod's namespaces on a real node: any program that waits will do."""

from devcluster.build import Say
from devcluster.imaging.buildah import Buildah, local

NAME = "pause"
DOCKERFILE = """\
FROM {base}
USER 65532:65532
ENTRYPOINT ["sleep", "infinity"]
CMD []
"""


def build(builder: Buildah, base: str, say: Say) -> None:
    """No layer of its own."""
    folder = builder.surroundings.places.temporary / NAME
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE.format(base=base))
    builder.build(local(NAME), ("--layers",), folder, say)
