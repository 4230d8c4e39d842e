"""The leader: admits the agents, runs case after case, and makes the report."""
