"""What a cluster is to be, as `up` hands it to the processes inside."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A name that pods ask for, and the directory that stands for it: its bin is first on PATH."""

    name: str
    directory: str
    env: Mapping[str, str]

    def visible(self) -> tuple[str, ...]:
        """Directories that a pod needs even where its own /tmp and /run would hide them."""
        python = Path(self.directory) / "bin" / "python3"
        base = (str(python.resolve().parents[1]),) if python.exists() else ()  # a venv's interpreter lives elsewhere
        return (self.directory, *base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    programs: Mapping[str, tuple[str, ...]]
    nodes: int = 2
    gpus: int = 0
    images: tuple[Image, ...] = ()
    listener_descriptor: int = -1

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"node{number}" for number in range(1, self.nodes + 1))

    def visible(self) -> tuple[str, ...]:
        wanted = [str(REPOSITORY), *(path for image in self.images for path in image.visible())]
        return tuple(dict.fromkeys(wanted))

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1))


def load(file: Path) -> Settings:
    raw: dict[str, Any] = json.loads(file.read_text())
    return Settings(
        programs={name: tuple(command) for name, command in raw["programs"].items()},
        nodes=raw["nodes"],
        gpus=raw["gpus"],
        images=tuple(Image(name=i["name"], directory=i["directory"], env=i["env"]) for i in raw["images"]),
        listener_descriptor=raw["listener_descriptor"],
    )
