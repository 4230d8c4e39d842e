"""What changed from one report to another: pure functions of reports."""
