"""Development only: setup, demos, generated documentation and dashboards, releases."""
