"""Rules over several fields of `spec.template`. The CRD has each of them in CEL."""

from disttest_operator.core import naming
from disttest_operator.core.spec_rule import Node, Rule

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


RULES = (
    Rule(
        path="template.spec.tolerations[]",
        sentence="operator Exists takes no value; remove value, or write operator: Equal",
        holds=_has_a_value_only_with_equal,
    ),
    Rule(
        path="template.spec.tolerations[]",
        sentence="a toleration without key tolerates every taint; write key, or operator: Exists",
        holds=_is_whole_toleration,
    ),
    Rule(
        path="template.spec.tolerations[]",
        sentence="tolerationSeconds needs effect: NoExecute; write that effect, or remove tolerationSeconds",
        holds=_has_seconds_only_with_no_execute,
    ),
    Rule(
        path="template.spec.volumes[]",
        sentence="write exactly one of hostPath, persistentVolumeClaim and emptyDir",
        holds=_has_one_source,
    ),
    Rule(
        path="template.spec.volumes[].name",
        sentence="artifacts, dshm, runner, tmp and names that begin with suite- are taken; choose another name",
        holds=_is_free_name,
    ),
    Rule(
        path="template.spec.volumeMounts[].mountPath",
        sentence=f"{', '.join(TAKEN_PATHS)} are taken: write a path that is none of them, nor above or below one",
        holds=_is_free_path,
    ),
    Rule(
        path="template.spec.volumeMounts",
        sentence="one mount hides another; write paths that are neither equal nor below each other",
        holds=_have_places_of_their_own,
    ),
    Rule(
        path="template.spec",
        sentence="each of volumeMounts names one of volumes; add the volume, or remove the mount",
        holds=_has_a_volume_for_each_mount,
    ),
    Rule(
        path="template.spec",
        sentence=(
            "tests do not write to their node; add readOnly: true to each mount of a hostPath, and write to a"
            " persistentVolumeClaim or an emptyDir"
        ),
        holds=_only_reads_nodes,
    ),
)
