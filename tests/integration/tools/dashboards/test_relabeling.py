"""A real Prometheus with the scrape configuration and the rules that are shipped, and two replicas that are played."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support import patience
from tests.support.monitoring import prometheus
from tools.dashboards import prometheus_objects
from tools.dashboards.__main__ import MANIFESTS
from tools.dashboards.prometheus import Prometheus

PATIENCE_SECONDS = 20
STANDBY = "disttest_leader 0\n"
ACTIVE = """disttest_leader 1
disttest_runs_total{namespace="ci",series="n",verdict="Hung",reason="CasesHung"} 3
disttest_run_duration_seconds_bucket{namespace="ci",series="n",verdict="Hung",le="+Inf"} 3
disttest_last_run_verdict{namespace="ci",series="n",verdict="Hung"} 1
disttest_ledger_writes_total{result="success"} 7
"""


def test_metrics_of_runs_continue_under_the_same_labels_when_the_other_replica_becomes_active(
    tmp_path: Path,
) -> None:
    with replica(ACTIVE) as first, replica(STANDBY) as second, scraper_of(tmp_path, [first, second]) as scraper:
        before = until("the run is there", lambda: scraper.ask("disttest_runs_total"))
        assert [one["metric"] for one in before] == [
            {
                "__name__": "disttest_runs_total",
                "job": "disttest-operator",
                "namespace": "ci",
                "series": "n",
                "verdict": "Hung",
                "reason": "CasesHung",
            }
        ]
        assert "pod" not in scraper.ask("disttest_run_duration_seconds_bucket")[0]["metric"]
        until("both are seen", lambda: len(scraper.ask("disttest_leader")) == 2)
        assert {one["metric"]["pod"] for one in scraper.ask("disttest_leader")} == {
            str(first.port),
            str(second.port),
        }
        assert scraper.ask("disttest_ledger_writes_total")[0]["metric"]["instance"] == f"127.0.0.1:{first.port}"
        firing = 'ALERTS{alertname="DistTestNightRed",alertstate="firing",namespace="ci",series="n"}'
        until("the alert fires", lambda: scraper.ask(firing))

        first.says, second.says = STANDBY, ACTIVE
        active = 'disttest_leader{pod="' + str(second.port) + '"} == 1'
        until("the other one is active", lambda: scraper.ask(active))
        after = until("it reports the run", lambda: scraper.ask("disttest_runs_total"))
        assert [one["metric"] for one in after] == [one["metric"] for one in before]


class Replica(http.server.ThreadingHTTPServer):
    """Answers every request with what it `says`."""

    def __init__(self, says: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.says = says
        self.port = self.server_address[1]


class _Answer(http.server.BaseHTTPRequestHandler):
    server: Replica

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.server.says.encode())

    def log_message(self, format: str, *args: object) -> None:  # type: ignore[explicit-override]  # noqa: A002  # the library's name; typing.override came with 3.12
        """Silence."""


@contextlib.contextmanager
def replica(says: str) -> Iterator[Replica]:
    with Replica(says) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def scraper_of(directory: Path, replicas: list[Replica]) -> contextlib.AbstractContextManager[Prometheus]:
    return prometheus.running(directory, here(replicas))


def here(replicas: list[Replica]) -> dict[str, Any]:
    """The shipped configuration, with what only a cluster has replaced: discovery, certificate and token."""
    config: dict[str, Any] = yaml.safe_load((MANIFESTS / "scrape-config" / "prometheus.yaml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(path) for path in prometheus_objects.plain_files()]
    (scrape,) = config["scrape_configs"]
    for key in ("kubernetes_sd_configs", "relabel_configs", "authorization", "tls_config"):
        del scrape[key]
    targets = [{"targets": [f"127.0.0.1:{one.port}"], "labels": {"pod": str(one.port)}} for one in replicas]
    scrape |= {"scheme": "http", "scrape_interval": "1s", "static_configs": targets}
    return config


def until(description: str, probe: Callable[[], Any]) -> Any:
    """The first value of `probe` that is true."""
    return patience.wait_until(description, probe, PATIENCE_SECONDS)
