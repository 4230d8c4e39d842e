"""Rules over several fields of a spec. The CRD has each of them in CEL, with the same path and the same sentence."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from disttest_contract.gang import environment
from disttest_contract.gang.suites import MEASURING
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Backend
from disttest_operator.core.api.spec_schema import ADHOC_SERIES, RANKS_WITHOUT_GPUS

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFieldRule:
    """`holds` gets the value at `path`, in which every field has passed its own rule."""

    path: str  # below spec; [] stands for each entry of a list
    sentence: str
    holds: Callable[[Any], bool]


# What the pod has of the kubelet, and what the runner and the operator put there.
TAKEN_PATHS = (
    *(naming.ARTIFACTS_DIRECTORY, "/dev/shm", "/dev/termination-log", "/etc/hostname", "/etc/hosts"),  # noqa: S108  # inside the container
    *("/etc/resolv.conf", naming.OWN_DIRECTORY, "/proc", "/sys", "/tmp", "/var/run/secrets"),  # noqa: S108  # same
)
TAKEN_VOLUMES = ("artifacts", "dshm", "runner", "tmp")
TAKEN_VOLUME_PREFIX = "suite-"


def _has_a_value_only_with_equal(toleration: Node) -> bool:
    return toleration.get("operator", "Equal") != "Exists" or not toleration.get("value")


def _is_whole_toleration(toleration: Node) -> bool:
    return bool(toleration.get("key")) or toleration.get("operator") == "Exists"


def _has_seconds_only_with_no_execute(toleration: Node) -> bool:
    return "tolerationSeconds" not in toleration or toleration.get("effect") == "NoExecute"


def _has_one_source(volume: Node) -> bool:
    return sum(source in volume for source in ("hostPath", "persistentVolumeClaim", "emptyDir")) == 1


def _is_free_name(name: str) -> bool:
    return name not in TAKEN_VOLUMES and not name.startswith(TAKEN_VOLUME_PREFIX)


def _is_free_path(path: str) -> bool:
    return not any(_is_at_or_below(path, taken) or _is_at_or_below(taken, path) for taken in TAKEN_PATHS)


def _have_places_of_their_own(mounts: list[Node]) -> bool:
    paths = [mount["mountPath"] for mount in mounts]
    return all(sum(_is_at_or_below(other, path) for other in paths) == 1 for path in paths)


def _has_a_volume_for_each_mount(pod: Node) -> bool:
    names = {volume["name"] for volume in pod.get("volumes", ())}
    return all(mount["name"] in names for mount in pod.get("volumeMounts", ()))


def _only_reads_nodes(pod: Node) -> bool:
    """A test that could write would leave a symbolic link, and the next one would have the kubelet mount its target."""
    on_nodes = {volume["name"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
    return all(mount.get("readOnly") for mount in pod.get("volumeMounts", ()) if mount["name"] in on_nodes)


def _is_at_or_below(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/")


TEMPLATE_RULES = (
    CrossFieldRule(
        path="template.spec.tolerations[]",
        sentence="operator Exists takes no value; remove value, or write operator: Equal",
        holds=_has_a_value_only_with_equal,
    ),
    CrossFieldRule(
        path="template.spec.tolerations[]",
        sentence="a toleration without key tolerates every taint; write key, or operator: Exists",
        holds=_is_whole_toleration,
    ),
    CrossFieldRule(
        path="template.spec.tolerations[]",
        sentence="tolerationSeconds needs effect: NoExecute; write that effect, or remove tolerationSeconds",
        holds=_has_seconds_only_with_no_execute,
    ),
    CrossFieldRule(
        path="template.spec.volumes[]",
        sentence="write exactly one of hostPath, persistentVolumeClaim and emptyDir",
        holds=_has_one_source,
    ),
    CrossFieldRule(
        path="template.spec.volumes[].name",
        sentence="artifacts, dshm, runner, tmp and names that begin with suite- are taken; choose another name",
        holds=_is_free_name,
    ),
    CrossFieldRule(
        path="template.spec.volumeMounts[].mountPath",
        sentence=f"{', '.join(TAKEN_PATHS)} are taken: write a path that is none of them, nor above or below one",
        holds=_is_free_path,
    ),
    CrossFieldRule(
        path="template.spec.volumeMounts",
        sentence="one mount hides another; write paths that are neither equal nor below each other",
        holds=_have_places_of_their_own,
    ),
    CrossFieldRule(
        path="template.spec",
        sentence="each of volumeMounts names one of volumes; add the volume, or remove the mount",
        holds=_has_a_volume_for_each_mount,
    ),
    CrossFieldRule(
        path="template.spec",
        sentence=(
            "tests do not write to their node; add readOnly: true to each mount of a hostPath, and write to a"
            " persistentVolumeClaim or an emptyDir"
        ),
        holds=_only_reads_nodes,
    ),
)


DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
RESERVED = (
    "RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and names that"
    " begin with DISTTEST_, PET_, TORCHELASTIC_ or JOB_COMPLETION_ are set by the runner; leave this one out"
)


def _is_nccl_with_gpus(spec: Node) -> bool:
    return spec.get("backend") != Backend.NCCL or spec.get("gpusPerNode", 8) > 0


def _has_a_gpu_for_each_rank(spec: Node) -> bool:
    gpus = spec.get("gpusPerNode", 8)
    return gpus == 0 or spec.get("backend") == Backend.GLOO or spec.get("ranksPerNode", gpus) <= gpus


def _leaves_gpus_to_gpus_per_node(spec: Node) -> bool:
    resources = spec.get("template", {}).get("spec", {}).get("resources", {})
    name = spec.get("gpuResource", DEFAULT_GPU_RESOURCE)
    return all(name not in resources.get(kind, {}) for kind in ("limits", "requests"))


def _measures_what_has_thresholds(spec: Node) -> bool:
    """A suite with files may record what it likes."""
    return not spec.get("thresholds") or any(
        "configMap" in suite or "files" in suite or suite.get("builtin", suite["name"]) == MEASURING
        for suite in spec["suites"]
    )


def _has_ranks_to_measure(spec: Node) -> bool:
    ranks = spec.get("ranksPerNode") or spec.get("gpusPerNode", 8) or RANKS_WITHOUT_GPUS
    return not spec.get("thresholds") or spec.get("nodes", 1) * ranks > 1


def _has_room_for_a_case(timeouts: Node) -> bool:
    """One that is left out gives way to the other."""
    both = ("caseSeconds", "runSeconds")
    return not all(name in timeouts for name in both) or timeouts["caseSeconds"] <= timeouts["runSeconds"]


SPEC_RULES = (
    CrossFieldRule(
        path="series",
        sentence=f"{ADHOC_SERIES} is the series of runs that name none; choose another name, or leave series out",
        holds=lambda series: series != ADHOC_SERIES,
    ),
    CrossFieldRule(
        path="suites[]",
        sentence=(
            "builtin, configMap and files exclude each other; write one, or none for the built-in suite of this name"
        ),
        holds=lambda suite: sum(source in suite for source in ("builtin", "configMap", "files")) <= 1,
    ),
    CrossFieldRule(
        path="",
        sentence="backend nccl needs GPUs; write backend: gloo, or gpusPerNode of at least 1",
        holds=_is_nccl_with_gpus,
    ),
    CrossFieldRule(
        path="",
        sentence=(
            "with GPUs every rank needs one of its own; write ranksPerNode of at most gpusPerNode,"
            " or backend: gloo, or gpusPerNode: 0"
        ),
        holds=_has_a_gpu_for_each_rank,
    ),
    CrossFieldRule(
        path="",
        sentence="GPUs are asked for by gpusPerNode; remove the GPU resource from template.spec.resources",
        holds=_leaves_gpus_to_gpus_per_node,
    ),
    CrossFieldRule(
        path="",
        sentence=(
            f"no suite measures what thresholds are about; add the suite {MEASURING}, or one with files, or remove"
            " thresholds"
        ),
        holds=_measures_what_has_thresholds,
    ),
    CrossFieldRule(
        path="",
        sentence="one rank alone measures nothing; write more nodes or ranksPerNode, or remove thresholds",
        holds=_has_ranks_to_measure,
    ),
    CrossFieldRule(path="env[].name", sentence=RESERVED, holds=lambda name: not environment.is_reserved(name)),
    CrossFieldRule(path="suites[].env[].name", sentence=RESERVED, holds=lambda name: not environment.is_reserved(name)),
    CrossFieldRule(
        path="timeouts",
        sentence="a case cannot last longer than the run; write caseSeconds of at most runSeconds",
        holds=_has_room_for_a_case,
    ),
    *TEMPLATE_RULES,
)


def check(spec: Node) -> Iterator[str]:
    """Yield a sentence for every rule that does not hold."""
    for rule in SPEC_RULES:
        for path, value in _find(spec, rule.path, "spec"):
            if not rule.holds(value):
                yield f"{path}: {rule.sentence}"


def _find(value: Any, rest: str, path: str) -> Iterator[tuple[str, Any]]:
    """Every value at a path, with its own path; nothing where a part of the way is absent."""
    if not rest:
        yield path, value
        return
    head, _, tail = rest.partition(".")
    name = head.removesuffix("[]")
    if name not in value:
        return
    if head.endswith("[]"):
        for index, item in enumerate(value[name]):
            yield from _find(item, tail, f"{path}.{name}[{index}]")
    else:
        yield from _find(value[name], tail, f"{path}.{name}")
