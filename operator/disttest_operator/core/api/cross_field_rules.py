"""Rules over several fields of a spec. The CRD has the same rules in CEL, at the same paths, with their messages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from disttest_contract.gang import environment
from disttest_contract.gang.suites import MEASURING
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import ADHOC_SERIES, Backend, RequiredTransport, Timeouts, backend, ranks_per_node
from disttest_operator.core.api.spec_schema import MESSAGES

Json = Mapping[str, Any]

# Mounted by the kubelet, or used by the runner and the operator.
TAKEN_PATHS = (
    *(naming.ARTIFACTS_DIRECTORY, "/dev/shm", "/dev/termination-log", "/etc/hostname", "/etc/hosts"),  # noqa: S108  # inside the container
    *("/etc/resolv.conf", naming.OWN_DIRECTORY, "/proc", "/sys", "/tmp", "/var/run/secrets"),  # noqa: S108  # same
)
TAKEN_VOLUMES = ("artifacts", "dshm", "runner", "tmp")
TAKEN_VOLUME_PREFIX = "suite-"


def _is_not_set_by_the_runner(name: str) -> bool:
    return not environment.is_reserved(name)


def _is_not_set_by_device_plugins(name: str) -> bool:
    return name != environment.GPUS_TO_ADD


def _has_a_value_only_with_equal(toleration: Json) -> bool:
    return toleration.get("operator", "Equal") != "Exists" or not toleration.get("value")


def _is_whole_toleration(toleration: Json) -> bool:
    return bool(toleration.get("key")) or toleration.get("operator") == "Exists"


def _has_seconds_only_with_no_execute(toleration: Json) -> bool:
    return "tolerationSeconds" not in toleration or toleration.get("effect") == "NoExecute"


def _has_one_source(volume: Json) -> bool:
    return sum(source in volume for source in ("hostPath", "persistentVolumeClaim", "emptyDir")) == 1


def _is_free_name(name: str) -> bool:
    return name not in TAKEN_VOLUMES and not name.startswith(TAKEN_VOLUME_PREFIX)


def _is_free_path(path: str) -> bool:
    return not any(_is_at_or_below(path, taken) or _is_at_or_below(taken, path) for taken in TAKEN_PATHS)


def _have_separate_paths(mounts: list[Json]) -> bool:
    paths = [mount["mountPath"] for mount in mounts]
    return all(sum(_is_at_or_below(other, path) for other in paths) == 1 for path in paths)


def _has_a_volume_for_each_mount(pod: Json) -> bool:
    names = {volume["name"] for volume in pod.get("volumes", ())}
    return all(mount["name"] in names for mount in pod.get("volumeMounts", ()))


def _only_reads_nodes(pod: Json) -> bool:
    """A test could leave a symbolic link on its node, and the kubelet would mount the target for the next test."""
    on_nodes = {volume["name"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
    return all(mount.get("readOnly") for mount in pod.get("volumeMounts", ()) if mount["name"] in on_nodes)


def _is_at_or_below(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/")


def _is_nccl_with_gpus(spec: Json) -> bool:
    return spec.get("backend") != Backend.NCCL or spec["gpusPerNode"] > 0


def _has_a_gpu_for_each_rank(spec: Json) -> bool:
    gpus = spec["gpusPerNode"]
    return gpus == 0 or spec.get("backend") == Backend.GLOO or spec.get("ranksPerNode", gpus) <= gpus


def _leaves_gpus_to_gpus_per_node(spec: Json) -> bool:
    resources = spec.get("template", {}).get("spec", {}).get("resources", {})
    return all(spec["gpuResource"] not in resources.get(kind, {}) for kind in ("limits", "requests"))


def _measures_what_has_thresholds(spec: Json) -> bool:
    """Suites with files of the user may record measurements."""
    return not spec.get("thresholds") or any(
        "configMap" in suite or "files" in suite or suite.get("builtin", suite["name"]) == MEASURING
        for suite in spec["suites"]
    )


def _has_ranks_to_measure(spec: Json) -> bool:
    return not spec.get("thresholds") or spec["nodes"] * ranks_per_node(spec) > 1


def _transport(spec: Json) -> str:
    return str(spec.get("transport", RequiredTransport.ANY))


def _has_nodes_for_a_network(spec: Json) -> bool:
    return bool(_transport(spec) == RequiredTransport.ANY or spec["nodes"] > 1)


def _has_nccl_for_its_networks(spec: Json) -> bool:
    return _transport(spec) in (RequiredTransport.ANY, RequiredTransport.TCP) or backend(spec) == Backend.NCCL


# By path, in the order of the messages. [] stands for each entry of a list.
RULES: Mapping[str, tuple[Callable[[Any], bool], ...]] = {
    "series": (lambda series: series != ADHOC_SERIES,),
    "suites[]": (lambda suite: sum(source in suite for source in ("builtin", "configMap", "files")) <= 1,),
    "": (
        _is_nccl_with_gpus,
        _has_a_gpu_for_each_rank,
        _leaves_gpus_to_gpus_per_node,
        _measures_what_has_thresholds,
        _has_ranks_to_measure,
        _has_nodes_for_a_network,
        _has_nccl_for_its_networks,
    ),
    "env[].name": (_is_not_set_by_the_runner, _is_not_set_by_device_plugins),
    "suites[].env[].name": (_is_not_set_by_the_runner, _is_not_set_by_device_plugins),
    "timeouts": (lambda timeouts: Timeouts().override_json(timeouts).is_consistent,),
    "template.spec.tolerations[]": (
        _has_a_value_only_with_equal,
        _is_whole_toleration,
        _has_seconds_only_with_no_execute,
    ),
    "template.spec.volumes[]": (_has_one_source,),
    "template.spec.volumes[].name": (_is_free_name,),
    "template.spec.volumeMounts[].mountPath": (_is_free_path,),
    "template.spec.volumeMounts": (_have_separate_paths,),
    "template.spec": (_has_a_volume_for_each_mount, _only_reads_nodes),
}


def check(spec: Json) -> Iterator[str]:
    """Yield a message for every rule that is violated.

    Every field of the spec has passed its own rule and has its default, and gpuResource is set.
    """
    for path, rules in RULES.items():
        for holds, message in zip(rules, MESSAGES[path], strict=True):
            for full_path, value in _find(spec, path, "spec"):
                if not holds(value):
                    yield f"{full_path}: {message}"


def _find(value: Any, rest: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each value at the path `rest` below `value`, with its full path; nothing if a part of it is absent."""
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
