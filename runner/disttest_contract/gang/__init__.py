"""The inputs of a gang: run plan, environment variables, suites, quarantine."""
