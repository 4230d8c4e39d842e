"""Configuration of containerd, the CNI plugins and the kubelet of a real node."""

from pathlib import Path
from typing import Any

from devcluster.imaging import base_image
from devcluster.imaging.image_registry import TAG
from devcluster.machine import settings

SOCKET = "/run/containerd/containerd.sock"
REGISTRY = "registry.devcluster"  # the host part of image names; hosts.toml has its address
PAUSE_IMAGE = f"{REGISTRY}/{base_image.PAUSE_NAME}:{TAG}"
# The kubelet would set these for the whole machine, so it sees files that already hold its values.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
OPT_PLUGIN = "io.containerd.internal.v1.opt"  # it creates /opt/containerd, for `ctr install`


def containerd(*, root: Path, hosts: Path, cni: Path, plugins: Path) -> str:
    """Return its TOML, without snapshotters for other file systems and tracing, which cannot work here."""
    off = [f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")]
    disabled = ", ".join(f'"{name}"' for name in (*off, "io.containerd.tracing.processor.v1.otlp", OPT_PLUGIN))
    return f"""\
version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = [{disabled}]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{hosts}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{cni}"
"""


def registry_host(url: str) -> str:
    """Return the hosts.toml with the registry's address."""
    return f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n'


def cni(number: int) -> dict[str, Any]:
    """Return a network of all pods, in which node `number` uses the addresses of its /24."""
    first_three = settings.node_address(number).rsplit(".", 1)[0]
    addresses = {
        "subnet": settings.POD_NETWORK,
        "rangeStart": f"{first_three}.10",
        "rangeEnd": f"{first_three}.250",
        "gateway": settings.GATEWAY,
    }
    bridge = {
        "type": "bridge",
        "bridge": settings.BRIDGE,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[addresses]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return {"cniVersion": "0.4.0", "name": "devcluster", "plugins": [bridge]}


def kubelet(*, state: Path, number: int, cgroup: str) -> dict[str, Any]:
    pki = state / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": settings.node_address(number),
        "port": settings.KUBELET_PORT,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "node.crt"),
        "tlsPrivateKeyFile": str(pki / "node.key"),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [settings.GATEWAY],
        "clusterDomain": "cluster.local",
        "resolvConf": "/dev/null",
        "volumePluginDir": "/run/volume-plugins",
        # A full developer disk must not evict pods, nor cost the images.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }
