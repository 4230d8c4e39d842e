"""Images in containerd's format, unpacked once for all nodes and clusters: each node uses a linked copy.

    python -m devcluster.realnode.containerd_store STORE REGISTRY IMAGE@DIGEST...   (below unshare; `update` starts it)

Only layers that are not there yet are pulled, so a change of code costs seconds.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.imaging import image_registry
from devcluster.imaging.image_registry import TAG
from devcluster.imaging.namespaced import OWN_NAMESPACES, OWN_NETWORK, BuildProgress
from devcluster.machine import cache, processes
from devcluster.machine.settings import REPOSITORY
from devcluster.programs import packages
from devcluster.programs.gobuild import Say
from devcluster.realnode import configuration

START_SECONDS = 30
POLL_SECONDS = 0.05


def wait_until_ready(containerd: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    command = ["ctr", "--address", configuration.SOCKET, "version"]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if containerd.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"containerd does not answer after {START_SECONDS} s; its exit code is {containerd.poll()}")
        time.sleep(POLL_SECONDS)


CONTENT = "content.json"  # written last: what the store holds
ADDRESS = "127.0.0.1:5000"
FORMAT = 2  # of the store: another one is unpacked again
GARBAGE = f"{configuration.REGISTRY}/garbage:{TAG}"
NAMESPACE = "k8s.io"  # where the kubelet's images are
PULL_SECONDS = 900  # of one image; 3 GB take two minutes
STOP_SECONDS = 30


def image(name: str) -> str:
    return f"{configuration.REGISTRY}/{name}:{TAG}"


def names_of(image: str) -> tuple[str, str]:
    """Split REPOSITORY:TAG@DIGEST into the names by tag and by digest: the kubelet looks up images by both."""
    by_tag, _, digest = image.partition("@")
    return by_tag, f"{by_tag.rpartition(':')[0]}@{digest}"


def is_complete(store: Path) -> bool:
    return (store / CONTENT).exists()


def update(store: Path, registry_storage: Path, digests: Mapping[str, str], *, programs: Path, say: Say) -> None:
    """Make the store hold exactly these images of the registry; `digests` is by name without tag."""
    store.mkdir(parents=True, exist_ok=True)
    with cache.hold_lock(store.with_suffix(".lock"), "is unpacking the images", say):
        content = store / CONTENT
        wanted = {"format": FORMAT, **digests}
        if content.exists() and json.loads(content.read_text()) == wanted:
            return
        content.unlink(missing_ok=True)
        module = (sys.executable, "-m", "devcluster.realnode.containerd_store", str(store), str(registry_storage))
        environment = {**packages.environment(programs), "PYTHONPATH": str(REPOSITORY)}
        say(f"unpacking the images {', '.join(digests)} for containerd")
        images = (f"{image(name)}@{digest}" for name, digest in digests.items())
        process = processes.start_piped([*OWN_NAMESPACES, *OWN_NETWORK, *module, *images], env=environment)
        processes.follow(process, "unpacking the images", beat=BuildProgress("unpacking images", say).beat)
        content.write_text(json.dumps(wanted))


def main(store: Path, registry_storage: Path, images: Sequence[str]) -> None:
    """Run as PID 1 of new namespaces, so that all programs end with it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    here = Path("/run/store")
    host = here / "hosts" / configuration.REGISTRY / "hosts.toml"
    host.parent.mkdir(parents=True)
    host.write_text(configuration.registry_host(f"http://{ADDRESS}"))
    settings = here / "containerd.toml"
    settings.write_text(
        f'version = 2\nroot = "{store}"\nstate = "/run/containerd"\n'
        f'disabled_plugins = ["io.containerd.grpc.v1.cri", "{configuration.OPT_PLUGIN}"]\n'
        f'[grpc]\n  address = "{configuration.SOCKET}"\n'
    )
    serving = subprocess.Popen(
        image_registry.read_only_command(here, registry_storage, ADDRESS), stdout=subprocess.DEVNULL
    )
    containerd = subprocess.Popen(["containerd", "--config", settings, "--log-level", "error"])
    wait_until_ready(containerd)
    wanted = {name for both in images for name in names_of(both)}
    for both in images:
        by_tag, by_digest = names_of(both)
        _ctr("images", "pull", "--hosts-dir", str(here / "hosts"), by_tag)
        _ctr("images", "tag", "--force", by_tag, by_digest)
    for name in set(_ctr("images", "list", "--quiet").split()) - wanted:
        _ctr("images", "remove", "--sync", name)
    # Layers that no image has any more are collected when an image is removed, and only then.
    _ctr("images", "tag", names_of(images[0])[0], GARBAGE)
    _ctr("images", "remove", "--sync", GARBAGE)
    containerd.terminate()  # it closes its databases
    containerd.wait(STOP_SECONDS)
    serving.kill()


def _ctr(*arguments: str) -> str:
    command = ["ctr", "--address", configuration.SOCKET, "--namespace", NAMESPACE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PULL_SECONDS, check=False)
    if done.returncode:
        sys.exit(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    os.chdir("/")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
