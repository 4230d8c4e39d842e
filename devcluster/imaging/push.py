"""Puts images into the registry's storage; only layers that are not there yet are written.

    python -m devcluster.imaging.push ROOT IMAGE...      (in namespaces of its own; `build` starts it)

The registry listens in a network of its own: nobody else on the machine can push to it. buildah would write to plain
directories too, but to all of them each layer anew: only of registries it remembers which compressed layer is which.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster.imaging import buildah, image_registry
from devcluster.imaging.storage import Places
from devcluster.machine.errors import DevClusterError

ADDRESS, PORT = "127.0.0.1", 5000


def main(root: Path, names: Sequence[str]) -> None:
    places = Places(root)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    serving = image_registry.serve(places.registry, ADDRESS, PORT, environment=os.environ)
    options = ("--quiet", "--compression-level", "1", "--format", "oci", "--tls-verify=false")
    for name in names:
        print(f"pushing {name}", flush=True)
        there = f"docker://{ADDRESS}:{PORT}/{name}:{image_registry.TAG}"
        subprocess.run(buildah.command(places, "push", *options, buildah.local(name), there), check=True)
    serving.terminate()
    serving.wait()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except (DevClusterError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
