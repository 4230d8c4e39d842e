"""What a gang is given: the run plan, environment variables, suites, quarantine."""
