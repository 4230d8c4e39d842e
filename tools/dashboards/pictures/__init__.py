"""Plots of the queries of dashboards, for the documentation without Grafana."""
