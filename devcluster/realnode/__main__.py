"""python -m devcluster.realnode STATE NAME NUMBER: a node of containerd and the kubelet.

It is started in a new mount and network namespace inside the cluster's: mounts, links, containers and the fixed paths
of these programs vanish with the cluster, and the machine's kernel settings do not change.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from devcluster.machine import settings
from devcluster.realnode import cgroups, configuration, containerd_store

SHORTEST_LIFE_SECONDS = 3  # a kubelet that ends earlier has failed
MOST_FAILURES = 4


def hide_host_directories(directory: Path) -> None:
    """Bind the fixed paths of kubelet, containerd and CNI plugins to directories of the cluster."""
    _mount("-t", "tmpfs", "tmpfs", "/run")
    for path in ("/var/lib", "/var/log"):
        own = directory / path.replace("/", "-").strip("-")
        own.mkdir(parents=True)
        _mount("--bind", str(own), path)
    for name, value in configuration.KERNEL_SETTINGS.items():
        file = Path("/run/settings", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
        _mount("--bind", str(file), f"/proc/sys/{name}")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def copy_store(pristine: Path, root: Path) -> None:
    """Link the files of images, which are never written to, and copy the two databases."""
    subprocess.run(["cp", "--archive", "--link", pristine, root], check=True)
    for database in pristine.glob("*/*.db"):
        own = root / database.relative_to(pristine)
        own.unlink()
        shutil.copy2(database, own)


def start(name: str, *command: str | Path, logs: Path) -> subprocess.Popen[bytes]:
    with (logs / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    (logs.parent / f"{name}.pid").write_text(str(process.pid))
    return process


def write_configuration(directory: Path, state: Path, number: int, wanted: settings.RealNodes) -> None:
    folders = {"root": directory / "containerd", "hosts": directory / "hosts", "cni": directory / "cni"}
    host = folders["hosts"] / configuration.REGISTRY / "hosts.toml"
    host.parent.mkdir(parents=True)
    host.write_text(configuration.registry_host(f"http://{settings.GATEWAY}:{settings.REGISTRY_PORT}"))
    folders["cni"].mkdir()
    (folders["cni"] / "devcluster.conflist").write_text(json.dumps(configuration.cni(number)))
    plugins = Path(wanted.programs, "usr/lib/cni")
    (directory / "containerd.toml").write_text(configuration.containerd(**folders, plugins=plugins))
    cgroup = f"{wanted.cgroup}/{number}"
    cgroups.create(cgroup)
    kubelet = configuration.kubelet(state=state, number=number, cgroup=cgroup)
    (directory / "kubelet.json").write_text(json.dumps(kubelet))


def main(state: Path, name: str, number: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = settings.load(state / "settings.json")
    if cluster.real is None:
        sys.exit("the cluster has no real nodes")
    directory = state / "nodes" / name
    directory.mkdir(parents=True)
    settings.join_network(number, os.getpid())
    hide_host_directories(directory)
    copy_store(Path(cluster.real.store), directory / "containerd")
    write_configuration(directory, state, number, cluster.real)
    logs = state / "logs"
    containerd = start(f"{name}.containerd", "containerd", "--config", directory / "containerd.toml", logs=logs)
    containerd_store.wait_until_ready(containerd)
    command = (
        *cluster.programs["kubelet"],
        f"--config={directory / 'kubelet.json'}",
        f"--kubeconfig={state / name}.kubeconfig",
        f"--hostname-override={name}",
        f"--node-ip={settings.node_address(number)}",
    )
    failures = 0  # in a row; containerd answers before its CRI plugin is initialized, and then the kubelet gives up
    while True:  # as a service manager does: pods live on while their kubelet is away
        started = time.monotonic()
        code = start(f"{name}.kubelet", *command, logs=logs).wait()
        failures = failures + 1 if time.monotonic() - started < SHORTEST_LIFE_SECONDS else 0
        if failures > MOST_FAILURES or containerd.poll() is not None:
            sys.exit(f"the kubelet ended with {code}, containerd with {containerd.poll()}")
        time.sleep(failures)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
