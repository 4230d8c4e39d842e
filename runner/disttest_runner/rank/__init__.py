"""One rank: a pytest session that takes its cases from the agent."""
