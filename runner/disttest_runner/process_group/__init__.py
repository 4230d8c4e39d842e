"""The process group of one generation of ranks: store, network interface, environment."""
