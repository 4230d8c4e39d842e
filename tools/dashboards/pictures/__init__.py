"""Plots of the dashboards' queries, for a documentation without a Grafana."""
