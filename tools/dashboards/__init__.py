"""Dashboards, rules and alerts for Prometheus and Grafana: `python -m tools.dashboards` writes them."""
