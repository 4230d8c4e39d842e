"""What a container starts with, computed from its pod: files, environment, capabilities; and what is not emulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.controlplane.kubeapi import Json
from devcluster.machine.settings import API_PORT, API_SERVICE, GATEWAY, Image
from devcluster.node import downward_api
from devcluster.node.launch import Launch, Mount
from devcluster.node.volumes import KINDS, MissingObjectError, PodObjects

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTNAME_CHARACTERS = 63  # a DNS label
DOMAIN = "cluster.local"
# Numbers of linux/capability.h: those that container runtimes give by default, then all that are known here.
DEFAULT_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
CAPABILITIES = {
    **DEFAULT_CAPABILITIES,
    "NET_ADMIN": 12,
    "IPC_LOCK": 14,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_NICE": 23,
    "SYS_RESOURCE": 24,
}
NOT_EMULATED = "NotEmulated"
VOLUMES = frozenset({
    "emptyDir", "configMap", "secret", "downwardAPI", "projected", "hostPath", "persistentVolumeClaim",
})  # fmt: skip
PROJECTED = frozenset({"configMap", "secret", "downwardAPI", "serviceAccountToken"})
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
CHECKS = frozenset({"httpGet", "tcpSocket"})
HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """What the containers of a pod share."""

    namespace: str
    hostname: str
    subdomain: str
    address: str
    sandbox: int  # the process that holds the pod's namespaces
    gpus: tuple[int, ...]
    visible: tuple[str, ...]


def hostname(name: str, spec: Json) -> str:
    return str(spec.get("hostname") or name)[:HOSTNAME_CHARACTERS].rstrip("-.")


def files(place: PodPlace) -> dict[str, str]:
    names = place.hostname
    if place.subdomain:
        names = f"{place.hostname}.{place.subdomain}.{place.namespace}.svc.{DOMAIN} {place.hostname}"
    search = f"{place.namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
    return {
        "/etc/hostname": place.hostname + "\n",
        "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{place.address} {names}\n",
        "/etc/resolv.conf": f"nameserver {GATEWAY}\nsearch {search}\noptions ndots:5 timeout:1\n",
    }


def base_environment(place: PodPlace, image: Image) -> dict[str, str]:
    env = {
        "PATH": f"{image.directory}/bin:{SYSTEM_PATH}",
        "HOME": "/tmp",  # noqa: S108 - the container's own; the one place where it may write
        "HOSTNAME": place.hostname,
        "LANG": "C.UTF-8",
        "KUBERNETES_SERVICE_HOST": API_SERVICE,
        "KUBERNETES_SERVICE_PORT": str(API_PORT),
        **image.env,
    }
    if place.gpus:
        env["NVIDIA_VISIBLE_DEVICES"] = env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.gpus))
    return env


def launch(
    place: PodPlace, spec: Json, env: dict[str, str], mounts: Sequence[Mount], *, root: Path, message_file: Path
) -> Launch:
    words = [*(spec.get("command") or []), *(spec.get("args") or [])]
    message_path = spec.get("terminationMessagePath", "/dev/termination-log")
    context = spec.get("securityContext") or {}
    return Launch(
        sandbox=place.sandbox,
        root=str(root),
        visible=place.visible,
        files=files(place),
        mounts=(*mounts, Mount(source=str(message_file), target=message_path, read_only=False)),
        working_directory=spec.get("workingDir") or "/",
        command=tuple(downward_api.expand(word, env) for word in words),
        env=env,
        gpus=bool(place.gpus),
        read_only_root=context.get("readOnlyRootFilesystem", False),
        capabilities=_capabilities(context),
        new_privileges=context.get("allowPrivilegeEscalation", True),
    )


def _capabilities(context: Json) -> tuple[int, ...] | None:
    if context.get("privileged"):
        return None
    asked = context.get("capabilities") or {}
    dropped = asked.get("drop") or []
    kept = set() if "ALL" in dropped else set(DEFAULT_CAPABILITIES) - set(dropped)
    added = asked.get("add") or []
    kept |= set(CAPABILITIES) if "ALL" in added else set(added)
    return tuple(sorted(CAPABILITIES[name] for name in kept if name in CAPABILITIES))


def refusals_of_pod(spec: Json) -> list[str]:
    """List requests of this pod that a process node does not emulate."""
    found = [field for field in HOST_NAMESPACES if spec.get(field)]
    found += [f"resource claim {claim['name']!r}" for claim in spec.get("resourceClaims") or []]
    for volume in spec.get("volumes") or []:
        found += [f"volume {volume['name']!r} of kind {kind}" for kind in volume.keys() - {"name"} - VOLUMES]
        for source in (volume.get("projected") or {}).get("sources") or []:
            found += [f"projected volume source {kind}" for kind in source.keys() - PROJECTED]
    for container in spec.get("initContainers") or []:
        found += [f"sidecar {container['name']!r}"] if container.get("restartPolicy") else []
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        found += [f"container {container['name']!r}: {what}" for what in _of_container(container)]
    return found


def _of_container(container: Json) -> list[str]:
    found = [f"{probe} other than {' and '.join(sorted(CHECKS))}" for probe in PROBES if _is_odd(container.get(probe))]
    refused = {
        "lifecycle hooks": container.get("lifecycle"),
        "stdin or tty": container.get("stdin") or container.get("tty"),
        "volumeDevices": container.get("volumeDevices"),
        "no command: images here have no entrypoint": not (container.get("command") or container.get("args")),
        "subPathExpr": any("subPathExpr" in mount for mount in container.get("volumeMounts") or []),
    }
    return found + [what for what, is_there in refused.items() if is_there]


def _is_odd(probe: Json | None) -> bool:
    return bool(probe) and not CHECKS & (probe or {}).keys()


async def build_environment(
    pod: Json, container: Json, base: Mapping[str, str], known_by_node: Mapping[str, str], objects: PodObjects
) -> dict[str, str]:
    """Raises MissingObjectError where a ConfigMap, Secret or key does not exist."""
    env = dict(base)
    for source in container.get("envFrom") or []:
        env.update(await _all_keys(source, objects))
    for variable in container.get("env") or []:
        source = variable.get("valueFrom")
        if not source:
            env[variable["name"]] = downward_api.expand(variable.get("value", ""), env)
        elif source.keys() & {"fieldRef", "resourceFieldRef"}:
            env[variable["name"]] = downward_api.value(pod, container, source, known_by_node)
        elif (value := await _one_key(source, objects)) is not None:
            env[variable["name"]] = value
    return env


async def _all_keys(source: Json, objects: PodObjects) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for field, kind in KINDS.items():
        if ref := source.get(f"{field}Ref"):
            return {prefix + key: value.decode() for key, value in (await objects.data(kind, ref)).items()}
    return {}


async def _one_key(source: Json, objects: PodObjects) -> str | None:
    for field, kind in KINDS.items():
        if ref := source.get(f"{field}KeyRef"):
            data = await objects.data(kind, ref)
            if ref["key"] in data:
                return data[ref["key"]].decode()
            if not ref.get("optional"):
                raise MissingObjectError(f"couldn't find key {ref['key']} in {kind} {ref['name']!r}")
    return None
