"""Dashboards for Grafana as code."""

from pathlib import Path

from tools.dashboards.boards import board, fabric, nights, operator, series

DASHBOARDS = (nights.BOARD, series.BOARD, fabric.BOARD, operator.BOARD)


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        (directory / f"{dashboard.uid}.json").write_text(board.to_json(dashboard))
