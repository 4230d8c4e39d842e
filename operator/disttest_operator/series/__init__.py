"""Ledgers in the cluster: compare-and-swap, retention of reports, expiry."""
