"""What a container starts with: its files, its environment, its limits. Nothing is done here, only decided."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.controlplane.kubeapi import Json
from devcluster.machine.settings import API_PORT, API_SERVICE, GATEWAY, Image
from devcluster.node import downward_api, security
from devcluster.node.launch import Launch, Mount
from devcluster.node.volumes import CONFIG_MAPS, SECRETS, MissingObjectError, PodObjects

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTNAME_CHARACTERS = 63  # a DNS label
DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Where the containers of a pod run."""

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
    limits = security.parse(spec)
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
        read_only_root=limits.read_only_root,
        capabilities=limits.capabilities,
        new_privileges=limits.new_privileges,
    )


FROM = (("configMapRef", CONFIG_MAPS), ("secretRef", SECRETS))
KEYS = (("configMapKeyRef", CONFIG_MAPS), ("secretKeyRef", SECRETS))


async def build_environment(
    pod: Json, container: Json, base: Mapping[str, str], known_by_node: Mapping[str, str], objects: PodObjects
) -> dict[str, str]:
    """Raises MissingError where a ConfigMap, Secret or key does not exist."""
    env = dict(base)
    for source in container.get("envFrom") or []:
        env.update(await _all_keys(source, objects))
    for variable in container.get("env") or []:
        source = variable.get("valueFrom")
        if not source:
            env[variable["name"]] = downward_api.expand(variable.get("value", ""), env)
        elif ref := source.get("fieldRef"):
            env[variable["name"]] = downward_api.field(pod, ref["fieldPath"], known_by_node)
        elif ref := source.get("resourceFieldRef"):
            env[variable["name"]] = downward_api.resource(pod["spec"]["containers"], container, ref)
        elif (value := await _one_key(source, objects)) is not None:
            env[variable["name"]] = value
    return env


async def _all_keys(source: Json, objects: PodObjects) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for field, kind in FROM:
        if ref := source.get(field):
            data = await objects.data(kind, ref["name"], optional=ref.get("optional", False))
            return {prefix + key: value.decode() for key, value in data.items()}
    return {}


async def _one_key(source: Json, objects: PodObjects) -> str | None:
    for field, kind in KEYS:
        if ref := source.get(field):
            optional = ref.get("optional", False)
            data = await objects.data(kind, ref["name"], optional=optional)
            if ref["key"] in data:
                return data[ref["key"]].decode()
            if not optional:
                raise MissingObjectError(f"couldn't find key {ref['key']} in {kind} {ref['name']!r}")
    return None
