"""The agent of one pod: ranks of one node, the connection to the leader, accelerators."""
