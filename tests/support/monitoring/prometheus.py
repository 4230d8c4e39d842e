"""A real Prometheus on this machine: started, asked, ended."""

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support import patience
from tests.support.operators.operator import fetch, free_port

READY_SECONDS = 30
PROMTOOL_SECONDS = 300
Sample = dict[str, Any]  # `metric` and `value` or `values`


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    address: str

    def ask(self, expression: str, at: datetime | None = None) -> list[Sample]:
        """An instant query. What Prometheus does not understand fails the test."""
        moment = {"time": at.timestamp()} if at else {}
        return self._get("query", query=expression, **moment)

    def ask_range(self, expression: str, begin: datetime, end: datetime, step_seconds: float) -> list[Sample]:
        return self._get(
            "query_range", query=expression, start=begin.timestamp(), end=end.timestamp(), step=step_seconds
        )

    def _get(self, path: str, **parameters: object) -> list[Sample]:
        code, text = fetch(f"http://{self.address}/api/v1/{path}?{urlencode(parameters)}")
        assert code == 200, f"{parameters}: {code} {text[:500]}"
        result: list[Sample] = json.loads(text)["data"]["result"]
        return result


def program(name: str) -> str:
    """prometheus or promtool. Where `make setup` could have got it, its absence is a failure."""
    found = shutil.which(name)
    if found is None and shutil.which("apt-get") is None:
        pytest.skip(f"no {name} on PATH, and no apt-get by which `make setup` could get it: install Prometheus")
    if found is None:
        pytest.fail(f"no {name} on PATH: `make setup` puts one into the cache, or install the package prometheus")
    return found


def promtool(*arguments: str | Path) -> str:
    """What it prints. Anything but success fails the test with its words."""
    command = [program("promtool"), *map(str, arguments)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=patience.stretched(PROMTOOL_SECONDS)
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@contextlib.contextmanager
def running(
    directory: Path, config: Mapping[str, Any], *flags: str, storage: Path | None = None
) -> Iterator[Prometheus]:
    """With this configuration, on `storage` if there is one already."""
    file = directory / "prometheus.yml"
    file.write_text(json.dumps(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={storage or directory / 'data'}",
        f"--web.listen-address={address}",
        *flags,
    ]
    log = directory / "prometheus.log"
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            _wait_until_ready(address, process, log)
            yield Prometheus(address=address)
        finally:
            process.terminate()
            try:
                process.wait(patience.stretched(10))
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        if process.poll() is not None:
            pytest.fail(f"Prometheus ended:\n{log.read_text()[-3000:]}")
        return fetch(f"http://{address}/-/ready")[0] == 200

    patience.wait_until("Prometheus is ready", is_ready, READY_SECONDS, details=lambda: log.read_text()[-3000:])
