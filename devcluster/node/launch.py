"""Starts one container of a process pod: joins the pod's namespaces, builds a root directory, runs the command.

The command is PID 1 of a PID namespace: a SIGTERM without a handler is ignored, and when it ends the kernel kills
whatever it left behind. All of it works without root inside a user namespace.

The descriptor, a pipe, carries JSON lines to the node: {"pid": ...} as soon as the process exists, {"error": ...} if it
could not be executed; it closes when the command runs. The exit status is the command's, or 128 + N after signal N.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devcluster.node import rootfs
from devcluster.node.rootfs import Root

START_ERROR = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    sandbox: int  # the process that holds the pod's network, UTS and IPC namespace
    root: str
    visible: tuple[str, ...]
    files: dict[str, str]
    mounts: tuple[Mount, ...]
    working_directory: str
    command: tuple[str, ...]
    env: dict[str, str]
    gpus: bool
    read_only_root: bool
    capabilities: tuple[int, ...] | None  # None: all, for a privileged container
    new_privileges: bool

    def prepare(self, file: Path) -> None:
        Path(self.root).mkdir(exist_ok=True)
        file.touch(mode=0o600)  # the environment may hold secrets
        file.write_text(json.dumps(asdict(self)))


def load(file: Path) -> Launch:
    raw: dict[str, Any] = json.loads(file.read_text())
    raw["mounts"] = tuple(Mount(**mount) for mount in raw["mounts"])
    return Launch(**raw)


def _prepare(launch: Launch) -> None:
    """Build the root directory and drop rights, as PID 1 of the container."""
    rootfs.mount("none", Path("/"), flags=rootfs.MS_REC | rootfs.MS_PRIVATE)
    root = Root(Path(launch.root))
    root.proc()
    root.devices(gpus=launch.gpus)
    for path, text in launch.files.items():
        root.file(path, text)
    for mount in launch.mounts:
        root.volume(mount.source, mount.target, read_only=mount.read_only)
    for path in launch.visible:  # behind the volumes: one at /tmp would hide a clone that lies below it
        root.show_hidden(path)
    root.enter(read_only=launch.read_only_root)
    os.chdir(launch.working_directory)
    if launch.capabilities is not None:
        rootfs.keep_capabilities(frozenset(launch.capabilities))
    if not launch.new_privileges:
        rootfs.forbid_new_privileges()


def _become(launch: Launch, control: int) -> None:
    try:
        rootfs.die_with_parent()
        os.setsid()
        _prepare(launch)
        for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored_by_python, signal.SIG_DFL)
        os.set_inheritable(control, False)
        os.execvpe(launch.command[0], launch.command, launch.env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(control, json.dumps({"error": str(error)}).encode() + b"\n")
    finally:
        os._exit(START_ERROR)


def main(launch: Launch, control: int) -> None:
    rootfs.die_with_parent()
    for name in ("net", "uts", "ipc"):
        rootfs.enter_namespace(Path(f"/proc/{launch.sandbox}/ns/{name}"))
    rootfs.unshare(rootfs.CLONE_NEWNS | rootfs.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        _become(launch, control)
    os.write(control, json.dumps({"pid": child}).encode() + b"\n")
    os.close(control)
    _, status = os.waitpid(child, 0)  # returns only when every process of the PID namespace is gone
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(load(Path(sys.argv[1])), int(sys.argv[2]))
