"""Writes what is generated into manifests/monitoring; a test compares it with what is committed."""

from collections.abc import Callable
from pathlib import Path

from monitoring import dashboards, rules, scraping

MANIFESTS = Path(__file__).parent.parent / "manifests" / "monitoring"
# Each part by the folder that it writes into.
WRITERS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("prometheus-rule", rules.write),
    ("service-monitor", scraping.write_service_monitor),
    ("dashboards", dashboards.write),
    ("scrape-config", scraping.write_scrape_config),
)


def write_all(directory: Path) -> None:
    for name, write in WRITERS:
        folder = directory / name
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)


if __name__ == "__main__":
    write_all(MANIFESTS)
