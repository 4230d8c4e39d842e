"""Prometheus and Alertmanager as processes of this machine, and promtool."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from devcluster.machine import processes
from devcluster.machine.settings import DevClusterError
from tools.demo.session import DemoError

READY_SECONDS = 30
STOP_SECONDS = 10
PROMTOOL_SECONDS = 600


class LocalService:
    """A program that serves HTTP on this machine, on `port` if that is free. Its log is written to `directory`."""

    def __init__(self, command: Sequence[str], directory: Path, *flags: str, port: int = 0) -> None:
        self.name = Path(command[-1]).name
        self.log = directory / f"{self.name}.log"
        port = free_port(port)
        self.url = f"http://127.0.0.1:{port}"
        with self.log.open("w") as out:
            address = f"--web.listen-address=127.0.0.1:{port}"
            self.process = subprocess.Popen([*command, address, *flags], stdout=out, stderr=out)

    @contextlib.contextmanager
    def running(self, ready_seconds: float = READY_SECONDS) -> Iterator[Self]:
        """Wait until it is ready, yield it, and stop it at the end."""
        try:
            try:
                processes.wait_until(f"{self.name} is ready", self._is_ready, ready_seconds)
            except DevClusterError as error:
                raise DemoError(f"{error}; end of its log:\n{self.log.read_text()[-2000:]}") from error
            yield self
        finally:
            end(self.process)

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise DemoError(f"{self.name} has ended with {self.process.returncode}")
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:  # noqa: S310  # of this machine
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def prometheus(  # what a Prometheus is started with
    directory: Path,
    config: Mapping[str, Any],
    *flags: str,
    storage: Path | None = None,
    command: Sequence[str] = ("prometheus",),
    port: int = 0,
    ready_seconds: float = READY_SECONDS,
) -> Iterator[LocalService]:
    """A Prometheus with this configuration, on `storage` if there is one already."""
    file = directory / "prometheus.yml"
    file.write_text(json.dumps(config))
    places = (f"--config.file={file}", f"--storage.tsdb.path={storage or directory / 'data'}")
    with LocalService(command, directory, *places, *flags, port=port).running(ready_seconds) as service:
        yield service


def promtool(*arguments: str | Path) -> str:
    """The output of promtool; a failure is a DemoError with its message."""
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PROMTOOL_SECONDS)
    if done.returncode:
        raise DemoError(f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def command_of(name: str) -> list[str]:
    """The command of a program; one that was unpacked, not installed, gets its own /usr/share with its templates."""
    program = Path(shutil.which(name) or name).resolve()
    share = program.parents[1] / "share"
    if share == Path("/usr/share") or not share.is_dir():
        return [str(program)]
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    return ["unshare", *options, "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', str(share), str(program)]


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port(preferred: int) -> int:
    """The preferred port if it is free, otherwise any; 0 prefers none."""
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as probe:
            number: int = probe.getsockname()[1]
            return number
    raise DemoError("this machine has no free port")
