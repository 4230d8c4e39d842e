"""Draws what the dashboards ask a Prometheus for, where there is no Grafana to take a picture of."""
