"""A process that may outlive us, remembered by its id and its start time: ids are used again."""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from devcluster.machine.settings import DevClusterError, NoNamespaces

END_SECONDS = 20
POLL_SECONDS = 0.01


class _EndedError(Exception):
    pass


def remember(pid: int, file: Path) -> None:
    file.write_text(f"{pid} {_start_time(pid)}")


def recall(file: Path) -> int | None:
    """Return the process id; None if that process has ended, even if another one has its id now."""
    try:
        pid, started = file.read_text().split()
        return int(pid) if _start_time(int(pid)) == started else None
    except (FileNotFoundError, ValueError, _EndedError):
        return None


def _start_time(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise _EndedError from error
    state, *fields = text.rsplit(")", 1)[1].split()  # the name before it may hold anything
    if state in "ZX":
        raise _EndedError
    return fields[18]


def children(pid: int) -> list[int]:
    """List children of the main thread: in programs of a cluster no other thread starts processes."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def kill_namespace(unshare: int, file: Path) -> bool:
    """Kill PID 1 of the namespace below `unshare` and wait until all its processes ended; False if that fails.

    PID 1 has ended only when every process of its namespace has: `unshare` waits for that, so it is killed itself only
    if it has no child yet.
    """
    deadline = time.monotonic() + END_SECONDS
    while recall(file) is not None:
        if time.monotonic() > deadline:
            return False
        for pid in children(unshare) or [unshare]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(unshare, os.WNOHANG)  # ours to reap if we started it
        time.sleep(POLL_SECONDS)
    return True


ISOLATION = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
USER = ("--user", "--map-root-user")
DEBIAN_PACKAGES = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "hostname": "hostname",
    "openssl": "openssl",
}
REMEDY = """\
this machine gives no namespaces to this user: {reason}
A cluster needs them to keep its processes, network and mounts apart. Ways to get them:
  - run as root outside of a container, or in one started with --privileged
  - as an ordinary user: sysctl kernel.unprivileged_userns_clone=1 (Debian),
    sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 24.04), sysctl user.max_user_namespaces=15000"""


def check_programs() -> None:
    missing = [name for name in DEBIAN_PACKAGES if shutil.which(name) is None]
    if missing:
        packages = sorted({DEBIAN_PACKAGES[name] for name in missing})
        raise DevClusterError(
            f"missing programs: {', '.join(missing)}; Debian and Ubuntu: apt install {' '.join(packages)}"
        )


@functools.cache
def unshare_options(*, rootless: bool = False) -> tuple[str, ...]:
    """Return the options that work here; root tries without a user namespace first, which is closer to a real node."""
    attempts: list[tuple[str, ...]] = [(*USER, *ISOLATION)]
    if os.geteuid() == 0 and not rootless:
        attempts.insert(0, ISOLATION)
    reasons = []
    for options in attempts:
        done = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return options
        reasons.append(done.stderr.strip())
    raise NoNamespaces(REMEDY.format(reason="; ".join(reasons)))


PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Request a signal for when the thread that started this process ends."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise DevClusterError(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before prctl
        os.kill(os.getpid(), number)


def output(*command: str, directory: str = "/") -> str:
    """Run a program of this machine and return its output."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    environment = {**os.environ, "PATH": search, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise DevClusterError(f"{command[0]} is missing: install it, then run this again") from error
    if done.returncode:
        raise DevClusterError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout
