"""Months of nights at a glance: the demo with a real Prometheus and Alertmanager. `make demo-monitoring` runs it.

Sixty simulated nights, of which the last was a bad one, are what Prometheus holds when it starts; then it scrapes the
operator of a real cluster, over HTTPS and with a token. Everything ends with this process.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from devcluster.controlplane.lifecycle import DevCluster
from tests.support.monitoring.simulation import history
from tests.support.monitoring.simulation.site import NAMESPACE, Site
from tools.dashboards.prometheus_objects import plain_files, state_pattern
from tools.demo import demo
from tools.demo.demo import Demo
from tools.demo.session import ROOT, DemoError, say, step

SMOKE = ROOT / "manifests" / "samples" / "cpu-smoke.yaml"
PROGRAMS = {"prometheus": 9090, "prometheus-alertmanager": 9093}  # and the ports that people know
STEP = timedelta(hours=1)
AGO = timedelta(hours=11)  # the last midnight of the story: the nights after it are over, and the missing one is missed
READY_SECONDS = 30
ALERT_SECONDS = 180
WHERE = ("series", "node", "suite", "case", "collective", "size_bytes")  # labels of alerts
SCRAPE_SECONDS = 5
STOP_SECONDS = 10


class LocalService:
    """A program that serves on this machine."""

    def __init__(self, name: str, directory: Path, *flags: str) -> None:
        self.name, self.log = name, directory / f"{name}.log"
        self.port = free_port(PROGRAMS[name])
        self.url = f"http://127.0.0.1:{self.port}"
        command = [*at_home(name), f"--web.listen-address=127.0.0.1:{self.port}", *flags]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def wait(self) -> None:
        """Until it is ready."""
        try:
            until(f"{self.name} is ready", READY_SECONDS, self._is_ready)
        except DemoError as error:
            raise DemoError(f"{error}; its last words:\n{self.log.read_text()[-2000:]}") from error

    def get(self, path: str, **parameters: str) -> Any:
        """An answer of its API, which is JSON."""
        with urllib.request.urlopen(f"{self.url}{path}?{urlencode(parameters)}", timeout=10) as answer:  # noqa: S310  # of this machine
            return json.load(answer)

    def stop(self) -> None:
        end(self.process)

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise DemoError(f"{self.name} has ended with {self.process.returncode}")
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:  # noqa: S310  # of this machine
                return bool(answer.status == 200)
        except OSError:
            return False


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def at_home(name: str) -> list[str]:
    """A command line; a program that was unpacked, not installed, sees its own /usr/share: its templates are there."""
    program = Path(shutil.which(name) or name).resolve()
    share = program.parents[1] / "share"
    if share == Path("/usr/share") or not share.is_dir():
        return [str(program)]
    options = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    return ["unshare", *options, "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', str(share), str(program)]


def run() -> int:
    for name in PROGRAMS:
        if shutil.which(name) is None:
            raise DemoError(
                f"no {name} on PATH: `make demo-monitoring` gets it where there is apt-get, else install it"
            )
    with tempfile.TemporaryDirectory(prefix="disttest-monitoring-") as name:
        directory = Path(name)
        storage = played(directory)
        with demo.started(demo.own_cluster()) as shown, contextlib.ExitStack() as ends:
            demo.install(shown)
            return look(shown, directory, storage, ends)


def played(directory: Path) -> Path:
    """What a Prometheus holds after sixty nights that ended just now."""
    done = step("sixty nights: a regression, flaky cases, a bad node, an outage, and at last a bad one")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    site = Site(now - AGO, has_bad_end=True)
    times = [*history.every(STEP, site.begin, now - STEP), now]
    storage = history.store(directory, told(site, times), times, step=STEP)
    done()
    return storage


def told(site: Site, times: list[datetime]) -> Iterator[history.Scrape]:
    """The operator of the story is gone when the real one comes: of itself it says nothing in the last hours."""
    of_runs = re.compile(state_pattern())
    for now, lines in history.scrapes(site, times):
        is_over = now > times[-1] - 2 * STEP
        yield now, [line for line in lines if not is_over or of_runs.fullmatch(line.partition("{")[0])]


def look(shown: Demo, directory: Path, storage: Path, ends: contextlib.ExitStack) -> int:
    done = step("starting Alertmanager, and Prometheus with the rules of manifests/monitoring/rules")
    alertmanager = ends.enter_context(alerting(directory))
    prometheus = ends.enter_context(scraping(shown, directory, storage, alertmanager))
    done()
    done = step("a DistTest, as any other night")
    code = shown.run(SMOKE)
    until("Prometheus has scraped the run", READY_SECONDS, lambda: asked(prometheus, RUNS))
    done()
    done = step("waiting for alerts: rules are looked at every 15 s")
    until("Alertmanager knows of the bad night", ALERT_SECONDS, lambda: is_told(prometheus, alertmanager))
    done()
    tell(prometheus, alertmanager)
    if demo.is_to_hold():
        say("\nAll of it stays until Ctrl-C.")
        with contextlib.suppress(KeyboardInterrupt):
            while prometheus.process.poll() is None:
                time.sleep(1)
    return code


ALERTS = 'ALERTS{alertname=~"DistTest.*"}'
RUNS = 'disttest_runs_total{series="adhoc",verdict="Passed",reason="AllCasesPassed"} > 0'


@contextlib.contextmanager
def alerting(directory: Path) -> Iterator[LocalService]:
    config = directory / "alertmanager.yml"
    route = {"receiver": "nobody", "group_by": ["namespace", "series"], "group_wait": "1s"}
    config.write_text(json.dumps({"route": route, "receivers": [{"name": "nobody"}]}))
    storage = f"--storage.path={directory / 'alertmanager'}"
    # Alone: without the empty address it would look for others of its kind.
    service = LocalService(
        "prometheus-alertmanager", directory, f"--config.file={config}", storage, "--cluster.listen-address="
    )
    try:
        service.wait()
        yield service
    finally:
        service.stop()


@contextlib.contextmanager
def scraping(shown: Demo, directory: Path, storage: Path, alertmanager: LocalService) -> Iterator[LocalService]:
    """A Prometheus that scrapes the operator's pod, through a port of this machine."""
    token, config = directory / "token", directory / "prometheus.yml"
    token.touch(mode=0o600)
    token.write_text(shown.token)
    host, _, port = shown.metrics_url().removeprefix("https://").removesuffix("/metrics").rpartition(":")
    with forwarded(shown.cluster, host, port) as here:
        config.write_text(json.dumps(configuration(here, token, alertmanager)))
        where = (f"--config.file={config}", f"--storage.tsdb.path={storage}")
        service = LocalService("prometheus", directory, *where, *history.flags(STEP))
        try:
            service.wait()
            yield service
        finally:
            service.stop()


def configuration(port: int, token: Path, alertmanager: LocalService) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "15s"},
        "rule_files": [str(path) for path in plain_files()],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]},
        "scrape_configs": [
            {
                "job_name": "disttest-operator",
                "scheme": "https",
                "honor_labels": True,
                "authorization": {"credentials_file": str(token)},
                "tls_config": {"insecure_skip_verify": True},  # the operator signed its certificate itself
                "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
            }
        ],
    }


@contextlib.contextmanager
def forwarded(cluster: DevCluster, host: str, port: str) -> Iterator[int]:
    """A port of this machine that leads to one in the cluster's network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "devcluster.controlplane.forward", str(number), host, port]
        process = subprocess.Popen(cluster.command_inside(command), pass_fds=[number], cwd=ROOT)
        try:
            yield listener.getsockname()[1]
        finally:
            end(process)


def tell(prometheus: LocalService, alertmanager: LocalService) -> None:
    """What fires, and where to look."""
    say("\nalerts")
    for labels in sorted((one["metric"] for one in asked(prometheus, ALERTS)), key=lambda one: one["alertname"]):
        where = " ".join(labels[name] for name in WHERE if name in labels)
        name = labels["alertname"].removeprefix("DistTest")
        say(f"  {labels['alertstate']:8} {labels['severity']:9} {name:24} {where}")
    streaks = f'disttest_run_streak{{namespace="{NAMESPACE}"}}'
    nights = urlencode({"g0.expr": streaks, "g0.range_input": "60d", "g0.tab": 0})
    say("\nopen")
    say(f"  Prometheus    {prometheus.url}/alerts")
    say(f"                {prometheus.url}/graph?{nights}")
    amtool = Path(at_home("prometheus-alertmanager")[-1]).with_name("amtool")
    say(f"  Alertmanager  {amtool} alert --alertmanager.url={alertmanager.url}   (Debian's has no page of its own)")
    say("  the dashboards as plots, since there is no Grafana here:")
    wanted = f"--prometheus {prometheus.url} --namespace {NAMESPACE} --series nightly-2x8 --to /tmp/nights"
    say(f"                .venv/bin/python -m tools.dashboards.pictures {wanted}")
    say(f"  or in your Grafana: import manifests/monitoring/dashboards/*.json, with {prometheus.url} as data source")


def is_told(prometheus: LocalService, alertmanager: LocalService) -> bool:
    """Prometheus sends alerts as of their first evaluation, and tells of them itself as of the second."""
    sent = {alert["labels"]["alertname"] for alert in alertmanager.get("/api/v2/alerts")}
    told = {alert["metric"]["alertname"] for alert in asked(prometheus, ALERTS)}
    return "DistTestCorruption" in sent and told >= {"DistTestCorruption", "DistTestNightMissed"}


def asked(prometheus: LocalService, expression: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = prometheus.get("/api/v1/query", query=expression)["data"]["result"]
    return found


def until(description: str, seconds: float, probe: Callable[[], Any]) -> None:
    deadline = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > deadline:
            raise DemoError(f"not after {seconds:.0f} s: {description}")
        time.sleep(0.2)


def free_port(wanted: int) -> int:
    """The one that people know, if nobody has it."""
    for port in (wanted, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as probe:
            number: int = probe.getsockname()[1]
            return number
    raise DemoError("this machine has no free port")


if __name__ == "__main__":
    sys.exit(demo.main(run))
