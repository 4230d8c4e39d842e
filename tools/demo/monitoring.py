"""`make demo-monitoring`: the demo with a real Prometheus and Alertmanager.

Prometheus starts with sixty simulated nights, of which the last was a bad one; then it scrapes the operator of a real
cluster, over HTTPS and with a token. Everything ends with this process.
"""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from devcluster.controlplane.lifecycle import DevCluster
from devcluster.machine import processes
from tools.dashboards.prometheus import Prometheus, Sample
from tools.dashboards.prometheus_objects import plain_files, state_pattern
from tools.demo import demo, history, local_services
from tools.demo.demo import Demo
from tools.demo.local_services import LocalService, command_of, end
from tools.demo.session import ROOT, DemoError, say, step
from tools.demo.story.site import NAMESPACE, Site

SMOKE = ROOT / "manifests" / "samples" / "cpu-smoke.yaml"
ALERTMANAGER = "prometheus-alertmanager"
RECEIVER = "none"  # alerts are shown, not sent
PROGRAMS = {"prometheus": 9090, ALERTMANAGER: 9093}  # with their usual ports
STEP = timedelta(hours=1)
AGO = timedelta(hours=11)  # the last midnight of the story: the nights after it are over, and the missing one is missed
SCRAPED_SECONDS = 30
ALERT_SECONDS = 180
WHERE = ("series", "node", "suite", "case", "collective", "size_bytes")  # labels of alerts
SCRAPE_SECONDS = 5


def run() -> int:
    for name in PROGRAMS:
        if shutil.which(name) is None:
            raise DemoError(
                f"no {name} on PATH: `make demo-monitoring` gets it where there is apt-get, else install it"
            )
    with tempfile.TemporaryDirectory(prefix="disttest-monitoring-") as name:
        directory = Path(name)
        storage = simulate(directory)
        with demo.started(demo.own_cluster()) as shown, contextlib.ExitStack() as ends:
            demo.install(shown)
            return present(shown, directory, storage, ends)


def simulate(directory: Path) -> Path:
    """The storage of a Prometheus after sixty nights that ended just now."""
    done = step("sixty nights: a regression, flaky cases, a bad node, an outage, and at last a bad one")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    site = Site(now - AGO, has_bad_end=True)
    times = [*history.every(STEP, site.begin, now - STEP), now]
    storage = history.store(directory, operator_scrapes(site, times), times, step=STEP)
    done()
    return storage


def operator_scrapes(site: Site, times: list[datetime]) -> Iterator[history.Scrape]:
    """The story's scrapes; in the last hours without the operator's own metrics, which then come from the real one."""
    of_runs = re.compile(state_pattern())
    for now, lines in history.scrapes(site, times):
        is_over = now > times[-1] - 2 * STEP
        yield now, [line for line in lines if not is_over or of_runs.fullmatch(line.partition("{")[0])]


def present(shown: Demo, directory: Path, storage: Path, ends: contextlib.ExitStack) -> int:
    done = step("starting Alertmanager, and Prometheus with the rules of manifests/monitoring/rules")
    alertmanager = ends.enter_context(alerting(directory))
    prometheus = ends.enter_context(scraping(shown, directory, storage, alertmanager))
    done()
    done = step("a DistTest, as any other night")
    code = shown.run(SMOKE)
    processes.wait_until("Prometheus has scraped the run", lambda: query(prometheus, RUNS), SCRAPED_SECONDS)
    done()
    done = step("waiting for alerts: rules are evaluated every 15 s")
    what = "Alertmanager has the alerts of the bad night"
    processes.wait_until(what, lambda: has_alerts(prometheus, alertmanager), ALERT_SECONDS)
    done()
    print_alerts(prometheus, alertmanager)
    if demo.is_to_hold():
        say("\nEverything runs until Ctrl-C.")
        with contextlib.suppress(KeyboardInterrupt):
            while prometheus.process.poll() is None:
                time.sleep(1)
    return code


ALERTS = 'ALERTS{alertname=~"DistTest.*"}'
RUNS = 'disttest_runs_total{series="adhoc",verdict="Passed",reason="AllCasesPassed"} > 0'


def alerting(directory: Path) -> contextlib.AbstractContextManager[LocalService]:
    config = directory / "alertmanager.yml"
    route = {"receiver": RECEIVER, "group_by": ["namespace", "series"], "group_wait": "1s"}
    config.write_text(json.dumps({"route": route, "receivers": [{"name": RECEIVER}]}))
    storage = f"--storage.path={directory / 'alertmanager'}"
    # Without the empty address it would try to form a cluster.
    flags = (f"--config.file={config}", storage, "--cluster.listen-address=")
    return LocalService(command_of(ALERTMANAGER), directory, *flags, port=PROGRAMS[ALERTMANAGER]).running()


@contextlib.contextmanager
def scraping(shown: Demo, directory: Path, storage: Path, alertmanager: LocalService) -> Iterator[LocalService]:
    """A Prometheus that scrapes the operator's pod, through a port of this machine."""
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text(shown.token)
    host, _, port = shown.metrics_url().removeprefix("https://").removesuffix("/metrics").rpartition(":")
    with (
        forwarded(shown.cluster, host, port) as here,
        local_services.prometheus(
            directory,
            configuration(here, token, alertmanager),
            *history.flags(STEP),
            storage=storage,
            command=command_of("prometheus"),
            port=PROGRAMS["prometheus"],
        ) as service,
    ):
        yield service


def configuration(port: int, token: Path, alertmanager: LocalService) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "15s"},
        "rule_files": [str(path) for path in plain_files()],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.url.removeprefix("http://")]}]}]},
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
    """A port of this machine that is forwarded into the cluster's network."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        command = [sys.executable, "-m", "devcluster.controlplane.forward", str(number), host, port]
        process = subprocess.Popen(cluster.command_inside(command), pass_fds=[number], cwd=ROOT)
        try:
            yield listener.getsockname()[1]
        finally:
            end(process)


def print_alerts(prometheus: LocalService, alertmanager: LocalService) -> None:
    """Print the alerts, and addresses to open."""
    say("\nalerts")
    for labels in sorted((one["metric"] for one in query(prometheus, ALERTS)), key=lambda one: one["alertname"]):
        where = " ".join(labels[name] for name in WHERE if name in labels)
        name = labels["alertname"].removeprefix("DistTest")
        say(f"  {labels['alertstate']:8} {labels['severity']:9} {name:24} {where}")
    streaks = f'disttest_run_streak{{namespace="{NAMESPACE}"}}'
    nights = urlencode({"g0.expr": streaks, "g0.range_input": "60d", "g0.tab": 0})
    say("\nopen")
    say(f"  Prometheus    {prometheus.url}/alerts")
    say(f"                {prometheus.url}/graph?{nights}")
    amtool = Path(command_of(ALERTMANAGER)[-1]).with_name("amtool")
    say(f"  Alertmanager  {amtool} alert --alertmanager.url={alertmanager.url}   (Debian's has no web page)")
    say("  the dashboards as plots, since there is no Grafana here:")
    wanted = f"--prometheus {prometheus.url} --namespace {NAMESPACE} --series nightly-2x8 --to /tmp/nights"
    say(f"                .venv/bin/python -m tools.dashboards.pictures {wanted}")
    say(f"  or in your Grafana: import manifests/monitoring/dashboards/*.json, with {prometheus.url} as data source")


def has_alerts(prometheus: LocalService, alertmanager: LocalService) -> bool:
    """Whether both show the bad night. Prometheus sends an alert one evaluation before it lists it."""
    with urllib.request.urlopen(f"{alertmanager.url}/api/v2/alerts", timeout=10) as answer:  # noqa: S310  # of this machine
        sent = {alert["labels"]["alertname"] for alert in json.load(answer)}
    listed = {alert["metric"]["alertname"] for alert in query(prometheus, ALERTS)}
    return "DistTestCorruption" in sent and listed >= {"DistTestCorruption", "DistTestNightMissed"}


def query(service: LocalService, expression: str) -> list[Sample]:
    return Prometheus(url=service.url).ask(expression)


if __name__ == "__main__":
    sys.exit(demo.main(run))
