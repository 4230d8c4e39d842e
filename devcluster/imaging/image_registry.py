"""A registry whose storage is in the cache, and reading what it holds."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devcluster.machine import processes
from devcluster.machine.settings import DevClusterError

TAG = "dev"
START_SECONDS = 20
POLL_SECONDS = 0.02
REPOSITORIES = "docker/registry/v2/repositories"
BLOBS = "docker/registry/v2/blobs"


def configuration(storage: Path, address: str) -> dict[str, Any]:
    return {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(storage)}, "delete": {"enabled": True}},
        "http": {"addr": address},
    }


def serve(storage: Path, address: str, port: int, *, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a registry and wait until it listens; it ends with the namespaces of the caller."""
    file = _write(storage, f"{address}:{port}")
    log = file.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(file)],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + START_SECONDS
    while "listening on" not in (text := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise DevClusterError(f"the registry of {storage} does not start: {text.strip()[-500:]}")
        time.sleep(POLL_SECONDS)
    return process


def collect_garbage(storage: Path, names: Sequence[str], environment: Mapping[str, str]) -> None:
    """Remove all but these images, and interrupted uploads. No process may push meanwhile."""
    for repository in (storage / REPOSITORIES).iterdir():
        shutil.rmtree(repository / "_uploads" if repository.name in names else repository, ignore_errors=True)
    command = ("docker-registry", "garbage-collect", "--delete-untagged", str(_write(storage, "127.0.0.1:0")))
    processes.output(*command, title=f"collecting garbage in {storage}", environment=environment)


def _write(storage: Path, address: str) -> Path:
    storage.mkdir(parents=True, exist_ok=True)
    file = storage.with_name(f"{storage.name}.json")
    file.write_text(json.dumps(configuration(storage, address)))
    return file


def manifest(storage: Path, digest: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(blob_path(storage, digest).read_text())
    return found


def blob_path(storage: Path, digest: str) -> Path:
    kind, _, name = digest.partition(":")
    return storage / BLOBS / kind / name[:2] / name / "data"


def digest_of(storage: Path, repository: str) -> str:
    """Return the digest of an image; empty if the registry does not have it."""
    link = storage / REPOSITORIES / repository / "_manifests/tags" / TAG / "current/link"
    with contextlib.suppress(FileNotFoundError):
        return link.read_text()
    return ""


READ_ONLY = {"maintenance": {"readonly": {"enabled": True}}}


def read_only_command(state: Path, storage: Path, address: str) -> tuple[str, ...]:
    """Return the command of a read-only registry, whose configuration it writes to the state directory."""
    usual = configuration(storage, address)
    file = state / "registry.json"
    file.write_text(json.dumps(usual | {"storage": usual["storage"] | READ_ONLY}))
    return ("docker-registry", "serve", str(file))
