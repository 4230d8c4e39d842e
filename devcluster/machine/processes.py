"""Processes: remembered by id and start time, since ids are used again; isolated in namespaces; followed."""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from devcluster.machine.settings import DevClusterError, NoNamespaces

END_SECONDS = 20
POLL_SECONDS = 0.01


def remember(pid: int, file: Path) -> None:
    file.write_text(f"{pid} {_start_time(pid)}")


def recall(file: Path) -> int | None:
    """Return the process id; None if that process has ended, even if another one has its id now."""
    try:
        pid, started = file.read_text().split()
        return int(pid) if _start_time(int(pid)) == started else None
    except (FileNotFoundError, ValueError):
        return None


def _start_time(pid: int) -> str:
    """Return the start in the kernel's clock ticks; empty if the process has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        fields = _stat_fields(pid)
        return "" if fields[0] in "ZX" else fields[19]
    return ""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of its children that have ended."""
    return sum(map(int, _stat_fields(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _stat_fields(pid: int) -> list[str]:
    """Fields of the process from its state on: the name before that may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


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
this user cannot create namespaces on this machine: {reason}
A cluster needs them to keep its processes, network and mounts apart. To enable them:
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


def end_with_parent() -> None:
    """Request SIGTERM for when the thread that started this process ends."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise DevClusterError(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it ended before prctl
        os.kill(os.getpid(), signal.SIGTERM)


def search_path(*first: Path) -> str:
    """PATH with the administrator's programs, which an ordinary user's often lacks; `first` come before it."""
    return os.pathsep.join([*map(str, first), os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"])


ERROR_CHARACTERS = 4000  # of the end of a program's errors


def output(
    *command: str,
    title: str = "",
    directory: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> str:
    """Run a program and return its output; if it fails, raise DevClusterError with its errors, and `title` if given."""
    title = title or " ".join(command)
    of_machine = {**os.environ, "PATH": search_path(), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    variables = of_machine if environment is None else environment
    try:
        done = subprocess.run(
            command, cwd=directory, env=variables, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError as error:
        raise DevClusterError(f"{command[0]} is missing: install it, then run this again") from error
    except subprocess.TimeoutExpired as error:
        raise DevClusterError(f"{title} has not ended after {seconds:g} s") from error
    if done.returncode:
        errors = done.stderr.strip()[-ERROR_CHARACTERS:]
        raise DevClusterError(f"{title} failed with exit code {done.returncode}: {errors}")
    return done.stdout


WAIT_POLL_SECONDS = 0.1


def wait_until(what: str, condition: Callable[[], object], seconds: float) -> None:
    """Wait until the condition is true; raise DevClusterError if it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DevClusterError(f"timeout after {seconds:g} s: {what}")
        time.sleep(WAIT_POLL_SECONDS)


PROGRESS_SECONDS = 8
TAIL_LINES = 40


def start_piped(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[str]:
    """Start it for `follow`, with output and errors in one pipe."""
    return subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=pass_fds,
        start_new_session=True,  # Ctrl-C is for us; we end it, with what it started
    )


def follow(
    process: subprocess.Popen[str],
    title: str,
    read: Callable[[str], None] = lambda _: None,
    beat: Callable[[], None] = lambda: None,
) -> str:
    """Pass each line to `read`, call `beat` every few seconds; return the last lines, or raise an error with them."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)

    def reading() -> None:
        if process.stdout is None:
            return
        with process.stdout:
            for line in process.stdout:
                tail.append(line)
                read(line.rstrip("\n"))

    reader = threading.Thread(target=reading, daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(PROGRESS_SECONDS)
            if reader.is_alive():
                beat()
        if process.wait():
            raise DevClusterError(f"{title} failed:\n{''.join(tail).strip()}")
        return "".join(tail)
    finally:
        if process.poll() is None:  # interrupted
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
