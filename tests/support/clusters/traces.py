"""What a cluster of real nodes could leave on a machine: looked at before and after."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from devcluster.machine import cache

SETTINGS = (
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
    "net/ipv4/ip_forward",
)
# Fixed paths of kubelet, containerd, runc, CNI plugins, buildah and containers' logs.
PLACES = (
    *("/etc/cni", "/etc/containers", "/etc/containerd", "/opt/cni", "/opt/containerd"),
    "/usr/libexec/kubernetes",
    *("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/lib/containers", "/var/lib/docker-registry"),
    *("/var/log/pods", "/var/log/containers", "/run/containerd", "/run/runc", "/run/containers", "/run/flannel"),
)
SHIM = "containerd-shim"


def traces() -> dict[str, list[str]]:
    """By kind; equal before and after a run that cleaned up."""
    return {
        "mounts": sorted(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()),
        "network links": sorted(link["ifname"] for link in _json("ip", "-json", "link")),
        "network namespaces": sorted(str(entry) for entry in _listed("/run/netns")),
        "routes": sorted(str(route) for route in _json("ip", "-json", "route")),
        "cgroups": sorted(str(folder) for folder in Path("/sys/fs/cgroup").glob("*/*/")),
        "kernel settings": [f"{name} = {Path('/proc/sys', name).read_text().strip()}" for name in SETTINGS],
        "iptables": sorted(_lines("iptables-save")),
        "places": sorted(path for path in PLACES if os.path.lexists(path)),
        "programs": sorted(_programs()),
    }


def _programs() -> list[str]:
    """Of the cluster of these tests: they name its directory, or are containers' shims."""
    ours = str(cache.cluster("e2e"))
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it has ended
                continue
            if ours in command or command.startswith(SHIM):
                found.append(command)
    return found


def _listed(path: str) -> list[Path]:
    return list(Path(path).iterdir()) if Path(path).is_dir() else []


def _json(*command: str) -> list[dict[str, str]]:
    answer: list[dict[str, str]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer


def _lines(program: str) -> list[str]:
    """Rules and chains, without counters and comments; none where there is no such program."""
    if shutil.which(program) is None:
        return []
    text = subprocess.run([program], capture_output=True, text=True, check=False).stdout
    return [line.split(" [")[0] for line in text.splitlines() if not line.startswith("#")]
