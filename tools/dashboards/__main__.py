"""Write the generated files of manifests/monitoring. A test compares them with the committed ones."""

from collections.abc import Iterator
from pathlib import Path

from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import to_json
from tools.dashboards.prometheus_objects import plain_files, prometheus_rule, scrape_config, service_monitor

MANIFESTS = Path(__file__).parents[2] / "manifests" / "monitoring"


def generated() -> Iterator[tuple[str, str]]:
    """Path and text of each file."""
    yield "service-monitor/service-monitor.yaml", service_monitor()
    yield "scrape-config/prometheus.yaml", scrape_config()
    for plain in plain_files():
        yield f"prometheus-rule/{plain.name}", prometheus_rule(plain.name, plain.read_text())
    for board in DASHBOARDS:
        yield f"dashboards/{board.uid}.json", to_json(board)


if __name__ == "__main__":
    for path, text in generated():
        (MANIFESTS / path).write_text(text)
