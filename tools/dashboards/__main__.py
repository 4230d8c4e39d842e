"""Writes the generated files of manifests/monitoring; a test compares them with the committed ones."""

from collections.abc import Callable
from pathlib import Path

from tools.dashboards import boards, prometheus_objects

MANIFESTS = Path(__file__).parents[2] / "manifests" / "monitoring"
# By the folder that they write into.
WRITERS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("prometheus-rule", prometheus_objects.write),
    ("service-monitor", prometheus_objects.write_service_monitor),
    ("dashboards", boards.write),
    ("scrape-config", prometheus_objects.write_scrape_config),
)


def write_all(directory: Path) -> None:
    for name, write in WRITERS:
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)


if __name__ == "__main__":
    write_all(MANIFESTS)
