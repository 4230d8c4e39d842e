"""The ledger of a series: totals, history of cases and nodes, results of runs."""
