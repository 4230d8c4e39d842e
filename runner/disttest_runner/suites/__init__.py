"""The built-in suites: plain pytest files, run on every rank."""
