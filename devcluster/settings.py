"""What a cluster is to be, as `up` hands it to the processes inside."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
REAL_NODE_PROGRAMS = ("kubelet",)


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
class RealNodes:
    """Nodes of containerd and the kubelet."""

    count: int
    programs: str
    """The unpacked packages."""
    store: str
    """containerd's root with the images, which every node copies."""
    registry: str
    """The registry's storage, with the same images."""
    cgroup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    programs: Mapping[str, tuple[str, ...]]
    nodes: int = 2
    gpus: int = 0
    stubs: int = 0
    audit_policy: str = ""
    """File of what the API server writes down in logs/audit.log; none: nothing."""
    images: tuple[Image, ...] = ()
    real: RealNodes | None = None
    listener_descriptor: int = -1

    @property
    def node_names(self) -> tuple[str, ...]:
        """Of process nodes; the first has number 1."""
        return tuple(f"node{number}" for number in range(1, self.nodes + 1))

    @property
    def stub_node_names(self) -> tuple[str, ...]:
        return stub_names(self.stubs)

    @property
    def real_node_names(self) -> tuple[str, ...]:
        """Their numbers follow those of the process nodes."""
        return tuple(f"real{number}" for number in range(1, (self.real.count if self.real else 0) + 1))

    def visible(self) -> tuple[str, ...]:
        wanted = [str(REPOSITORY), *(path for image in self.images for path in image.visible())]
        return tuple(dict.fromkeys(wanted))

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1))


def stub_names(count: int) -> tuple[str, ...]:
    return tuple(f"stub{number}" for number in range(1, count + 1))


def load(file: Path) -> Settings:
    """What `save` wrote, perhaps an older one: an interrupted cluster may be found by a newer program."""
    raw: dict[str, Any] = json.loads(file.read_text())
    return Settings(
        programs={name: tuple(command) for name, command in raw["programs"].items()},
        nodes=raw["nodes"],
        gpus=raw["gpus"],
        stubs=raw.get("stubs", 0),
        audit_policy=raw.get("audit_policy", ""),
        images=tuple(Image(name=i["name"], directory=i["directory"], env=i["env"]) for i in raw["images"]),
        real=RealNodes(**raw["real"]) if raw.get("real") else None,
        listener_descriptor=raw["listener_descriptor"],
    )
