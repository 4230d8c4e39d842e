"""Which cluster is meant: one of ours, or by explicit choice somebody else's.

An inherited KUBECONFIG alone is never used: it may be a developer's production cluster.
"""

import os
import shutil
from pathlib import Path

from devcluster import build
from devcluster.errors import ClusterError

OPT_IN = "DEVCLUSTER_USE_KUBECONFIG"


def foreign_kubeconfig(given: Path | None = None) -> Path | None:
    """The configuration of a cluster that is not ours, if the user chose one."""
    if given is not None:
        chosen = given
    elif os.environ.get(OPT_IN) == "1":
        if not os.environ.get("KUBECONFIG"):
            raise ClusterError(f"{OPT_IN}=1 asks for the cluster of KUBECONFIG, which is not set")
        chosen = Path(os.environ["KUBECONFIG"])
    else:
        return None
    if not chosen.is_file():
        raise ClusterError(f"{chosen} is no kubeconfig file")
    return chosen.resolve()


def note_on_ignored_kubeconfig() -> str:
    if "KUBECONFIG" not in os.environ:
        return ""
    return f"KUBECONFIG is set but not used: a cluster of our own starts (to use that one: {OPT_IN}=1)"


def kubectl(say: build.Say) -> tuple[str, ...]:
    """Ours where it is built; for somebody else's cluster one on PATH spares the build."""
    if foreign_kubeconfig() and (found := shutil.which("kubectl")):
        return (found,)
    return build.kubectl(say)
