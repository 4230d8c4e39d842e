"""What people see and are told: generated dashboards, rules and alerts. `python -m monitoring` writes all of it."""
