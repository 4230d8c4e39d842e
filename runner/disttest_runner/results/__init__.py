"""From what ranks report to outcomes, verdicts and measurements. Pure."""
