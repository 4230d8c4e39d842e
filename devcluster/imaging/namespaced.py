"""Programs in new mount and process namespaces, with which their mounts and processes end."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster.imaging.storage import Places
from devcluster.machine import processes
from devcluster.machine.settings import REPOSITORY
from devcluster.programs import packages
from devcluster.programs.gobuild import Say

# Our death reaches unshare as a SIGKILL, and unshare's death its child, which is PID 1: with it all others end.
OWN_NAMESPACES = (
    *("setpriv", "--pdeathsig", "KILL", "--"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
)
OWN_NETWORK = ("--net",)
# The arguments: libraries, a folder, a mount point, the command. buildah writes to /var/lib/containers, which
# cannot be configured: our folder is mounted there, next to all that is in /var/lib.
ENTER = """
set -e
libraries=$1 containers=$2 hidden=$3
shift 3
mount --bind "$libraries" /etc/ld.so.cache
mount -t tmpfs tmpfs "$hidden"
for folder in /var/lib/*/; do
  folder=${folder%/}
  mkdir "$hidden/${folder##*/}"
  mount --rbind "$folder" "$hidden/${folder##*/}"
done
mkdir -p "$hidden/containers"
mount --bind "$containers" "$hidden/containers"
mount --rbind "$hidden" /var/lib
exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Folders, lock and environment of the programs of Debian packages."""

    places: Places
    programs: Path
    lock: int
    variables: Mapping[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Write a loader cache with the libraries, since buildah executes itself without LD_LIBRARY_PATH."""
        settings = self.places.settings
        for folder in (settings, self.places.containers, self.places.var_lib):
            folder.mkdir(parents=True, exist_ok=True)
        libraries = [str(folder) for folder in (self.programs / "usr/lib").glob("*-linux-gnu*")]
        (settings / "ld.so.conf").write_text("\n".join(["include /etc/ld.so.conf", *libraries, ""]))
        processes.output("ldconfig", "-X", "-C", str(settings / "ld.so.cache"), "-f", str(settings / "ld.so.conf"))

    def environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.places.temporary), "PYTHONPATH": str(REPOSITORY)}
        return {**packages.environment(self.programs), **own, **self.variables}

    def start(self, command: Sequence[str], *, own_network: bool = False) -> subprocess.Popen[str]:
        unshare = [*OWN_NAMESPACES, *(OWN_NETWORK if own_network else ())]
        arguments = (self.places.settings / "ld.so.cache", self.places.containers, self.places.var_lib)
        whole = [*unshare, "sh", "-c", ENTER, "sh", *map(str, arguments), *command]
        return processes.start_piped(whole, env=self.environment(), pass_fds=[self.lock])

    def run(self, *command: str) -> str:
        """Run a short command and return its output."""
        return processes.follow(self.start(command), " ".join(command[:2]))


@dataclass(slots=True)
class BuildProgress:
    what: str
    say: Say
    started: float = field(default_factory=time.monotonic)

    def beat(self) -> None:
        self.say(f"  {time.monotonic() - self.started:4.0f} s: {self.what}")
