"""The zygote, which imports torch once and forks ranks, and its client in the agent."""
