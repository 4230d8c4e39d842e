"""What a container starts with: its files, its environment, its limits. Nothing is done here, only decided."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.kubeapi import Json
from devcluster.network import API_PORT, API_SERVICE, GATEWAY
from devcluster.node import fields, security
from devcluster.node.launch import Launch, Mount
from devcluster.settings import Image

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOSTNAME_CHARACTERS = 63  # a DNS label
DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


def files(place: Place) -> dict[str, str]:
    names = place.hostname
    if place.subdomain:
        names = f"{place.hostname}.{place.subdomain}.{place.namespace}.svc.{DOMAIN} {place.hostname}"
    search = f"{place.namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
    return {
        "/etc/hostname": place.hostname + "\n",
        "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{place.address} {names}\n",
        "/etc/resolv.conf": f"nameserver {GATEWAY}\nsearch {search}\noptions ndots:5 timeout:1\n",
    }


def base_environment(place: Place, image: Image) -> dict[str, str]:
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
    place: Place, spec: Json, env: dict[str, str], mounts: Sequence[Mount], *, root: Path, message_file: Path
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
        command=tuple(fields.expand(word, env) for word in words),
        env=env,
        gpus=bool(place.gpus),
        read_only_root=limits.read_only_root,
        capabilities=limits.capabilities,
        new_privileges=limits.new_privileges,
    )
