"""What people see and are told: dashboards, rules and alerts. `python -m tools.dashboards` writes all of it."""
