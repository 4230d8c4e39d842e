"""Sixty simulated nights of three series: what happened, the metrics of it, and a Prometheus that holds them."""
