"""Dashboards for Grafana as code."""

from tools.dashboards.boards import fabric, nights, operator, series

DASHBOARDS = (nights.BOARD, series.BOARD, fabric.BOARD, operator.BOARD)
